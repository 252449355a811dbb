#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace meshwright {

using Digest = std::array<std::byte, 32>;

// SHA-256 (FIPS 180-4) and the code it gives with a key (HMAC, RFC 2104).
Digest sha256(std::span<const std::byte> message);
Digest hmac_sha256(std::span<const std::byte> key, std::span<const std::byte> message);

// In a time that does not depend on where they differ.
bool is_equal(const Digest& a, const Digest& b);

}  // namespace meshwright
