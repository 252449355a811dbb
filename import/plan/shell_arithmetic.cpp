#include "import/plan/shell_arithmetic.h"

#include <cctype>

#include "import/input/text_lines.h"

namespace meshwright {
namespace {

using Number = std::optional<std::int64_t>;

constexpr int kDeepestBrackets = 32;

Number combined(char sign, std::int64_t one, std::int64_t other) {
  std::int64_t result = 0;
  if (sign == '+' && !__builtin_add_overflow(one, other, &result)) return result;
  if (sign == '-' && !__builtin_sub_overflow(one, other, &result)) return result;
  if (sign == '*' && !__builtin_mul_overflow(one, other, &result)) return result;
  const bool divides = other != 0 && !(one == INT64_MIN && other == -1);
  if (sign == '/' && divides) return one / other;
  if (sign == '%' && divides) return one % other;
  return {};
}

std::int64_t compared(std::string_view sign, std::int64_t one, std::int64_t other) {
  if (sign == "==") return one == other;
  if (sign == "!=") return one != other;
  if (sign == "<=") return one <= other;
  if (sign == ">=") return one >= other;
  return sign == "<" ? one < other : one > other;
}

class ArithmeticReader {
 public:
  ArithmeticReader(std::string_view text, const NumberOf& number_of)
      : text_(text), number_of_(number_of) {}

  Number read() {
    const Number value = chosen(0);
    skip_blanks();
    return at_ == text_.size() ? value : std::nullopt;
  }

 private:
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void skip_blanks() {
    while (std::isspace(static_cast<unsigned char>(peek())) != 0) ++at_;
  }

  bool take(std::string_view sign) {
    skip_blanks();
    if (!text_.substr(at_).starts_with(sign)) return false;
    at_ += sign.size();
    return true;
  }

  // condition ? one : other
  Number chosen(int depth) {
    const Number value = comparison(depth);
    if (depth > kDeepestBrackets) return {};
    if (!take("?")) return value;
    const Number one = chosen(depth + 1);
    if (!take(":")) return {};
    const Number other = chosen(depth + 1);
    if (!value) return {};
    return *value != 0 ? one : other;
  }

  Number comparison(int depth) {
    const Number value = operands("+-", depth);
    for (const std::string_view sign : {"==", "!=", "<=", ">=", "<", ">"}) {
      if (!take(sign)) continue;
      const Number other = operands("+-", depth);
      return value && other ? Number(compared(sign, *value, *other)) : std::nullopt;
    }
    return value;
  }

  // Sums of products of single operands.
  Number operands(std::string_view signs, int depth) {
    const auto next = [&] { return signs == "+-" ? operands("*/%", depth) : single(depth); };
    Number value = next();
    for (;;) {
      skip_blanks();
      const char sign = peek();
      if (!value || sign == '\0' || signs.find(sign) == signs.npos) return value;
      ++at_;
      const Number other = next();
      value = other ? combined(sign, *value, *other) : std::nullopt;
    }
  }

  Number single(int depth) {
    skip_blanks();
    if (depth > kDeepestBrackets) return {};
    if (peek() == '-') {
      ++at_;
      const Number value = single(depth + 1);
      return value ? combined('-', 0, *value) : std::nullopt;
    }
    if (peek() == '(') {
      ++at_;
      const Number value = chosen(depth + 1);
      skip_blanks();
      if (peek() != ')') return {};
      ++at_;
      return value;
    }
    return word();
  }

  // 8, NODES, $NODES, ${NODES}
  Number word() {
    const bool dollar = peek() == '$';
    if (dollar) ++at_;
    const bool braces = dollar && peek() == '{';
    if (braces) ++at_;
    const std::size_t start = at_;
    while (std::isalnum(static_cast<unsigned char>(peek())) != 0 || peek() == '_') ++at_;
    const std::string name(text_.substr(start, at_ - start));
    if (braces && peek() != '}') return {};
    if (braces) ++at_;
    if (name.empty()) return {};
    const bool digit = std::isdigit(static_cast<unsigned char>(name[0])) != 0;
    return digit && !dollar ? whole_number_in(name) : number_of_(name);
  }

  std::string_view text_;
  const NumberOf& number_of_;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<std::int64_t> arithmetic_value(std::string_view text, const NumberOf& number_of) {
  if (!text.starts_with("$((") || !text.ends_with("))")) return {};
  return ArithmeticReader(text.substr(3, text.size() - 5), number_of).read();
}

}  // namespace meshwright
