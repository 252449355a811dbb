#include "executor/process/sha256.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <stdexcept>

namespace meshwright {
namespace {

unsigned char* octets(Digest& digest) { return reinterpret_cast<unsigned char*>(digest.data()); }

const unsigned char* octets(std::span<const std::byte> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

}  // namespace

Digest sha256(std::span<const std::byte> message) {
  Digest digest;
  if (EVP_Digest(message.data(), message.size(), octets(digest), nullptr, EVP_sha256(), nullptr) !=
      1) {
    throw std::runtime_error("OpenSSL has no SHA-256");
  }
  return digest;
}

Digest hmac_sha256(std::span<const std::byte> key, std::span<const std::byte> message) {
  Digest digest;
  if (!HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), octets(message), message.size(),
            octets(digest), nullptr)) {
    throw std::runtime_error("OpenSSL has no HMAC with SHA-256");
  }
  return digest;
}

bool is_equal(const Digest& a, const Digest& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace meshwright
