#include "executor/element_numbers.h"

#include "executor/stored.h"

namespace meshwright {

std::vector<double> numbers_of(std::span<const std::byte> memory, BufferElement element,
                               Precision precision) {
  return with_stored(element, precision, [&]<class Stored>(Stored) {
    const std::span numbers(reinterpret_cast<const Stored*>(memory.data()),
                            memory.size() / sizeof(Stored));
    std::vector<double> result;
    result.reserve(numbers.size());
    for (const Stored number : numbers) result.push_back(static_cast<double>(number));
    return result;
  });
}

void set_number(std::span<std::byte> memory, std::int64_t index, double value,
                BufferElement element, Precision precision) {
  with_stored(element, precision, [&]<class Stored>(Stored) {
    reinterpret_cast<Stored*>(memory.data())[index] = stored<Stored>(value);
  });
}

}  // namespace meshwright
