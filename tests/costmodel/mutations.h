#pragma once

#include <array>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

namespace meshwright {

// Spoils files at random: bytes, or values of a JSON document. The same seed spoils alike.
class Mutations {
 public:
  explicit Mutations(std::uint64_t seed) : random_(seed) {}

  std::size_t below(std::size_t count) { return static_cast<std::size_t>(random_() % count); }

  // Between one and four bytes flipped, deleted or inserted.
  std::string of_bytes(std::string text) {
    for (std::size_t n = 1 + below(4); n > 0 && !text.empty(); --n) {
      const std::size_t at = below(text.size());
      switch (below(3)) {
        case 0:
          text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
          break;
        case 1:
          text.erase(at, 1 + below(8));
          break;
        default:
          text.insert(at, 1, static_cast<char>(below(256)));
          break;
      }
    }
    return text;
  }

  // Between one and three values replaced, by an awkward one or by one from elsewhere in the
  // document, or an element of a list dropped or repeated.
  std::string of_values(nlohmann::json document) {
    for (std::size_t n = 1 + below(3); n > 0; --n) {
      const auto places = places_in(document);
      const auto& place = places[below(places.size())];
      nlohmann::json& list = document[place.parent_pointer()];
      if (list.is_array() && below(4) == 0) {
        spoil_list(list);
      } else {
        document[place] =
            below(2) == 0 ? awkward() : nlohmann::json(document[places[below(places.size())]]);
      }
    }
    return document.dump();
  }

 private:
  static std::vector<nlohmann::json::json_pointer> places_in(const nlohmann::json& document) {
    const nlohmann::json flat = document.flatten();
    std::vector<nlohmann::json::json_pointer> places;
    for (const auto& [pointer, _] : flat.items()) places.emplace_back(pointer);
    return places;
  }

  void spoil_list(nlohmann::json& list) {
    const std::size_t at = below(list.size());
    if (below(2) == 0) {
      list.erase(at);
    } else {
      list.push_back(nlohmann::json(list[at]));
    }
  }

  nlohmann::json awkward() {
    static const std::array<nlohmann::json, 20> kValues = {nullptr,
                                                           0,
                                                           1,
                                                           2,
                                                           3,
                                                           7,
                                                           -1,
                                                           2147483648,
                                                           9223372036854775807,
                                                           0.5,
                                                           1.5,
                                                           -0.5,
                                                           1e300,
                                                           "",
                                                           "\n\x7f{}%",
                                                           "80 GiB",
                                                           true,
                                                           nlohmann::json::array(),
                                                           "batch",
                                                           nlohmann::json::object()};
    return kValues[below(kValues.size())];
  }

  std::mt19937_64 random_;
};

}  // namespace meshwright
