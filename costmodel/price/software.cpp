#include "costmodel/price/software.h"

#include <fmt/format.h>

#include <algorithm>

#include "costmodel/base/json_input.h"

namespace meshwright {
namespace {

constexpr std::string_view kFormat = "meshwright-software";
constexpr std::int64_t kVersion = 1;

double positive_share(const JsonInput& input) {
  const auto value = input.as<double>();
  if (value <= 0 || value > 1) input.fail_expected("a share above 0, at most 1");
  return value;
}

AttentionKernel read_attention(const JsonInput& input) {
  const auto kernel = parse_attention_kernel(input.as<std::string>());
  if (!kernel) input.fail_expected("unfused, fused_softmax, flash1, flash2 or newest");
  return *kernel;
}

// Fields of a software. One that is like another may leave out what is the same.
class SoftwareReader {
 public:
  SoftwareReader(const JsonInput& input, const std::vector<Software>& before) : input_(input) {
    const auto like = input.find("like");
    if (!like) return;
    const Software* base = find_software(before, like->as<std::string>());
    if (!base || !base->like.empty())
      like->fail_expected("the name of one before it, like no other");
    software_ = *base;
    software_.like = base->name;
    software_.also.clear();
  }

  Software read() {
    software_.name = input_.required<std::string>("name");
    software_.sources = input_.required<std::string>("sources");
    if (const auto also = input_.find("also")) software_.also = also->list<std::string>();
    if (const auto field = find("attention")) software_.attention = read_attention(*field);
    number("dispatch_s", software_.dispatch_s);
    plain("host_waits", software_.host_waits);
    number("kernel_gap_s", software_.kernel_gap_s);
    plain("fused_adds", software_.fused_adds);
    if (const auto field = find("loss_launches")) software_.loss_launches = field->integer(1, 1000);
    number("row_passes", software_.row_passes);
    plain("compiled", software_.compiled);
    if (const auto field = find("attention_share")) {
      software_.attention_share = positive_share(*field);
    }
    number("step_s", software_.step_s);
    number("owner_s", software_.owner_s);
    number("slow_down", software_.slow_down);
    plain("bucket", software_.bucket);
    plain("overlap_gradients", software_.overlap_gradients);
    if (const auto field = find("prefetch")) software_.prefetch = field->integer(0, 1000);
    plain("wide_gradients", software_.wide_gradients);
    plain("copies_gradients", software_.copies_gradients);
    plain("keeps_products", software_.keeps_products);
    number("dropout", software_.dropout);
    plain("context", software_.context);
    plain("communicator", software_.communicator);
    plain("transfer_buffers", software_.transfer_buffers);
    plain("gradient_buffers", software_.gradient_buffers);
    input_.reject_unknown_fields();
    return software_;
  }

 private:
  // Missing: what the other one has.
  std::optional<JsonInput> find(std::string_view field) const {
    return software_.like.empty() ? input_.at(field) : input_.find(field);
  }
  void number(std::string_view name, double& value) const {
    if (const auto field = find(name)) value = field->not_negative();
  }
  template <class T>
  void plain(std::string_view name, T& value) const {
    if (const auto field = find(name)) value = field->as<T>();
  }

  const JsonInput& input_;
  Software software_;
};

}  // namespace

KernelSet kernel_set_of(const Software& software) {
  if (stores_scores(software.attention)) return KernelSet::Unfused;
  return software.loss_launches > 1 ? KernelSet::Eager : KernelSet::Flash;
}

std::vector<Software> read_software(const std::filesystem::path& file) {
  const JsonInput input = JsonInput::read(file);
  if (input.required<std::string>("format") != kFormat) {
    input.at("format").fail_expected(fmt::format("\"{}\"", kFormat));
  }
  if (input.required<std::int64_t>("version") != kVersion) {
    input.at("version").fail_expected(fmt::format("{}", kVersion));
  }
  std::vector<Software> all;
  for (const JsonInput& one : input.at("software").elements()) {
    all.push_back(SoftwareReader(one, all).read());
  }
  if (all.empty()) input.at("software").fail_expected("at least one");
  input.reject_unknown_fields();
  return all;
}

const Software* find_software(const std::vector<Software>& all, std::string_view name) {
  for (const Software& software : all) {
    if (software.name == name || std::ranges::find(software.also, name) != software.also.end()) {
      return &software;
    }
  }
  return nullptr;
}

}  // namespace meshwright
