#include "costmodel/software.h"

#include <fmt/format.h>

#include <algorithm>

#include "costmodel/json_input.h"

namespace meshwright {
namespace {

constexpr std::string_view kFormat = "meshwright-software";
constexpr std::int64_t kVersion = 1;

double not_negative(const JsonInput& input) {
  const auto value = input.as<double>();
  if (value < 0) input.fail_expected("a number that is not negative");
  return value;
}

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

Software read_one(const JsonInput& input) {
  Software software{.name = input.required<std::string>("name"),
                    .sources = input.required<std::string>("sources"),
                    .attention = read_attention(input.at("attention")),
                    .dispatch_s = not_negative(input.at("dispatch_s")),
                    .row_passes = not_negative(input.at("row_passes")),
                    .attention_share = positive_share(input.at("attention_share")),
                    .step_s = not_negative(input.at("step_s")),
                    .slow_down = not_negative(input.at("slow_down")),
                    .bucket = input.required<Bytes>("bucket"),
                    .overlap_gradients = input.required<bool>("overlap_gradients"),
                    .prefetch = input.at("prefetch").integer(0, 1000),
                    .wide_gradients = input.required<bool>("wide_gradients"),
                    .dropout = not_negative(input.at("dropout")),
                    .context = input.required<Bytes>("context"),
                    .communicator = input.required<Bytes>("communicator"),
                    .allocator = not_negative(input.at("allocator"))};
  if (const auto also = input.find("also")) software.also = also->list<std::string>();
  input.reject_unknown_fields();
  return software;
}

}  // namespace

KernelSet kernel_set_of(AttentionKernel attention) {
  switch (attention) {
    case AttentionKernel::Unfused:
    case AttentionKernel::FusedSoftmax:
      return KernelSet::Unfused;
    case AttentionKernel::Flash1:
    case AttentionKernel::Flash2:
    case AttentionKernel::Newest:
      return KernelSet::Flash;
  }
  return KernelSet::Flash;
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
  for (const JsonInput& one : input.at("software").elements()) all.push_back(read_one(one));
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
