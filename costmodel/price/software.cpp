#include "costmodel/price/software.h"

#include <fmt/format.h>

#include <algorithm>

#include "costmodel/base/json_input.h"

namespace meshwright {
namespace {

constexpr std::string_view kSoftwareFormat = "meshwright-software";
constexpr std::int64_t kSoftwareVersion = 1;

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

KernelSet read_kernels(const JsonInput& input) {
  const auto kernels = parse_kernel_set(input.as<std::string>());
  if (!kernels) input.fail_expected(kernel_set_names());
  return *kernels;
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
    read_prices(software_.prices);
    read_step(software_.step);
    read_plan(software_.plan);
    read_memory(software_.memory);
    input_.reject_unknown_fields();
    return software_;
  }

 private:
  void read_prices(SoftwarePrices& prices) const {
    if (const auto field = find("attention")) prices.attention = read_attention(*field);
    number("kernel_gap_s", prices.kernel_gap_s);
    plain("fused_adds", prices.fused_adds);
    if (const auto field = find("loss_launches")) prices.loss_launches = field->integer(1, 1000);
    number("row_passes", prices.row_passes);
    plain("compiled", prices.compiled);
    if (const auto field = find("attention_share")) prices.attention_share = positive_share(*field);
  }
  void read_step(SoftwareStep& step) const {
    number("dispatch_s", step.dispatch_s);
    plain("host_waits", step.host_waits);
    number("slow_down", step.slow_down_inside_node);
    number("slow_down", step.slow_down_across_nodes);
    plain("overlaps_steps", step.overlaps_steps);
    number("step_s", step.step_s);
    number("owner_s", step.owner_s);
  }
  void read_plan(PlanDefaults& plan) const {
    if (const auto field = find("kernels")) plan.kernels = read_kernels(*field);
    plain("bucket", plan.bucket);
    plain("bucket_per_replica", plan.bucket_per_replica);
    plain("overlap_gradients", plan.overlap_gradients);
    if (const auto field = find("prefetch")) plan.prefetch = field->integer(0, 1000);
    plain("wide_gradients", plan.wide_gradients);
    plain("narrow_in_fp16", plan.narrow_in_fp16);
    plain("reruns_all", plan.reruns_all);
  }
  void read_memory(SoftwareMemory& memory) const {
    plain("context", memory.context);
    plain("communicator", memory.communicator);
    plain("transfer_buffers", memory.transfer_buffers);
    plain("gradient_buffers", memory.gradient_buffers);
    plain("caching_allocator", memory.caching_allocator);
    plain("copies_gradients", memory.copies_gradients);
    plain("keeps_narrow_gradients", memory.keeps_narrow_gradients);
    plain("casts_weights", memory.casts_weights);
  }

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

std::vector<Software> read_software(const std::filesystem::path& file) {
  const JsonInput input = JsonInput::read(file);
  if (input.required<std::string>("format") != kSoftwareFormat) {
    input.at("format").fail_expected(fmt::format("\"{}\"", kSoftwareFormat));
  }
  if (input.required<std::int64_t>("version") != kSoftwareVersion) {
    input.at("version").fail_expected(fmt::format("{}", kSoftwareVersion));
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
