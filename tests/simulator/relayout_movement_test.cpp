// The steps of a relayout carried out on tensors of integers, device by device.
#include <rapidcheck.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "simulator/layout/relayout.h"
#include "tests/simulator/layout_examples.h"

namespace meshwright {
namespace {

using Place = std::vector<std::int64_t>;
using Content = std::map<Place, std::int64_t>;  // what a device holds, by place in the whole tensor
using State = std::map<DeviceId, Content>;

void add_places(std::vector<Place>& places, const std::vector<std::vector<ShardRange>>& shard,
                Place& place) {
  if (place.size() == shard.size()) {
    places.push_back(place);
    return;
  }
  for (const ShardRange& range : shard[place.size()]) {
    for (std::int64_t i = 0; i < range.size; ++i) {
      place.push_back(range.start + i);
      add_places(places, shard, place);
      place.pop_back();
    }
  }
}

std::vector<Place> places_of(const Layout& layout, const Mesh& mesh,
                             const std::vector<std::int64_t>& sizes, DeviceId device) {
  std::vector<Place> places;
  Place place;
  add_places(places, shard_of(layout, mesh, sizes, device), place);
  return places;
}

std::int64_t combined(PendingReduction reduction, std::int64_t x, std::int64_t y) {
  return reduction == PendingReduction::Max ? std::max(x, y) : x + y;
}

// The values of the whole tensor.
std::int64_t value_at(const Place& place) {
  std::int64_t value = 17;
  for (const std::int64_t i : place) value = value * 31 + i;
  return value;
}

std::vector<AxisId> pending_axes(const Layout& layout) {
  return layout.partial ? layout.partial->axes : std::vector<AxisId>{};
}

// Members of a group that a sum is pending over hold any values that sum up to the tensor's, and
// for a maximum any that are not above it.
State spread(const Layout& layout, const Mesh& mesh, const std::vector<std::int64_t>& sizes) {
  State state;
  for (const std::vector<DeviceId>& group : mesh.groups(pending_axes(layout))) {
    for (const Place& place : places_of(layout, mesh, sizes, group[0])) {
      const std::int64_t value = value_at(place);
      const bool largest = layout.partial && layout.partial->reduction == PendingReduction::Max;
      std::int64_t last = value;
      for (std::size_t i = 0; i + 1 < group.size(); ++i) {
        const auto share = static_cast<std::int64_t>(i + 1) * (place.back() + 3);
        state[group[i]][place] = largest ? value - share : share;
        if (!largest) last -= share;
      }
      state[group.back()][place] = last;
    }
  }
  return state;
}

// What members have received from others, and how much the fullest message of one to another held.
struct Traffic {
  std::int64_t received = 0;
  std::int64_t largest_message = 0;
};

struct Moved {
  State state;
  Traffic traffic;  // the most of any device
};

// What `device` holds after a collective in which every member sends each other member what that
// one holds afterwards, and members' values combine.
Content receive(const std::vector<DeviceId>& group, const State& before,
                const std::vector<Place>& wanted, DeviceId device,
                std::optional<PendingReduction> reduction, Traffic& traffic) {
  Content content;
  Traffic own;
  for (const DeviceId sender : group) {
    std::int64_t message = 0;
    for (const Place& place : wanted) {
      const auto found = before.at(sender).find(place);
      if (found == before.at(sender).end()) continue;
      const auto [held, first] = content.emplace(place, found->second);
      // Without a reduction nobody may hold what another one does.
      RC_ASSERT(first || reduction.has_value());
      if (!first) held->second = combined(*reduction, held->second, found->second);
      ++message;
    }
    if (sender == device) continue;
    own.received += message;
    own.largest_message = std::max(own.largest_message, message);
  }
  traffic.received = std::max(traffic.received, own.received);
  traffic.largest_message = std::max(traffic.largest_message, own.largest_message);
  return content;
}

Moved carry_out(const RelayoutStep& step, const State& before, const Layout& layout,
                const Mesh& mesh, const std::vector<std::int64_t>& sizes) {
  Moved moved;
  const bool reduces =
      step.kind == RelayoutKind::AllReduce || step.kind == RelayoutKind::ReduceScatter;
  const auto reduction = reduces ? std::optional(layout.partial->reduction) : std::nullopt;
  const bool alone = step.kind == RelayoutKind::Slice;
  for (const DeviceId device : mesh.devices()) {
    const std::vector<DeviceId> group = alone ? std::vector{device} : mesh.group(device, step.axes);
    moved.state[device] =
        receive(group, before, places_of(*layout_after(step, layout), mesh, sizes, device), device,
                reduction, moved.traffic);
  }
  return moved;
}

// That every device holds its shard of the tensor, or that pending values combine to it.
void check_state(const State& state, const Layout& layout, const Mesh& mesh,
                 const std::vector<std::int64_t>& sizes) {
  for (const std::vector<DeviceId>& group : mesh.groups(pending_axes(layout))) {
    const std::vector<Place> places = places_of(layout, mesh, sizes, group[0]);
    for (const DeviceId device : group) RC_ASSERT(state.at(device).size() == places.size());
    for (const Place& place : places) {
      std::int64_t value = state.at(group[0]).at(place);
      for (std::size_t i = 1; i < group.size(); ++i) {
        value = combined(layout.partial->reduction, value, state.at(group[i]).at(place));
      }
      RC_ASSERT(value == value_at(place));
    }
  }
}

// The tensor's state always has an entry for every device, if only an empty one.
State start(const Layout& layout, const Mesh& mesh, const std::vector<std::int64_t>& sizes) {
  State state = spread(layout, mesh, sizes);
  for (const DeviceId device : mesh.devices()) state[device];
  return state;
}

// What a device would send, counted in elements, by the formula of its transfers.
double sent_by_formula(const RelayoutStep& step, const Layout& before, const Mesh& mesh,
                       const MovedTensor& tensor) {
  double bytes = 0;
  for (const Transfer& transfer : transfers_of(step, before, mesh, tensor, mesh.devices()[0])) {
    bytes += bytes_sent(transfer, tensor.precision);
  }
  return bytes / static_cast<double>(bytes_per_element(tensor.precision).value());
}

}  // namespace

TEST_CASE("the steps of a path move a tensor into the layout they promise") {
  const AlphaBeta costs(1.0_us, 1.0_GBps);
  CHECK(rc::check([&] {
    const Mesh mesh = random_mesh();
    const auto dims = *between<std::size_t>(1, 4);
    const MovedTensor tensor{random_sizes(dims)};
    const Layout from = random_layout(mesh, dims, true), to = random_layout(mesh, dims, false);
    const auto path = cheapest_relayout(mesh, tensor, from, to, costs);
    RC_ASSERT(path.has_value());
    State state = start(from, mesh, tensor.sizes);
    Layout layout = without_trivial_axes(from, mesh);
    for (const RelayoutStep& step : path->steps) {
      state = carry_out(step, state, layout, mesh, tensor.sizes).state;
      layout = *layout_after(step, layout);
      check_state(state, layout, mesh, tensor.sizes);
    }
    check_state(state, to, mesh, tensor.sizes);
  }));
}

TEST_CASE("every step is right from every layout and needs no more than its transfer's room") {
  CHECK(rc::check([] {
    const Mesh mesh = random_mesh(2);
    const MovedTensor tensor{random_sizes(2)};
    const Layout layout = random_layout(mesh, 2, true);
    const auto steps = steps_from(
        layout, {.axes = {a, b}, .orders = {ShardOrder::Contiguous, ShardOrder::Zigzag}});
    RC_PRE(!steps.empty());
    const RelayoutStep step = steps[*between<std::size_t>(0, steps.size())];
    RC_ASSERT(!fault_of(*layout_after(step, layout), mesh));
    const Moved moved =
        carry_out(step, start(layout, mesh, tensor.sizes), layout, mesh, tensor.sizes);
    check_state(moved.state, *layout_after(step, layout), mesh, tensor.sizes);
    const auto transfers = transfers_of(step, layout, mesh, tensor, mesh.devices()[0]);
    RC_ASSERT(transfers.empty() == (step.kind == RelayoutKind::Slice));
    if (transfers.empty()) {
      RC_ASSERT(moved.traffic.received == 0);
    } else if (step.kind == RelayoutKind::AllReduce) {
      RC_ASSERT(moved.traffic.largest_message == element_count(transfers[0]));
    } else {
      RC_ASSERT(moved.traffic.largest_message * mesh.size(step.axes) <=
                element_count(transfers[0]));
    }
  }));
}

TEST_CASE("where cuts are even each member sends exactly the bytes of the formula") {
  CHECK(rc::check([] {
    const Mesh mesh =
        mesh_of(*rc::gen::container<std::vector<std::int64_t>>(2, between<std::int64_t>(2, 4)));
    // Both halves of a zigzag divide too.
    const auto all = 2 * static_cast<std::int64_t>(mesh.devices().size());
    const MovedTensor tensor{{all, all}};
    const Layout layout = random_layout(mesh, 2, true);
    for (const RelayoutStep& step : steps_from(
             layout, {.axes = {a, b}, .orders = {ShardOrder::Contiguous, ShardOrder::Zigzag}})) {
      // An all-reduce done directly sends more than a ring: its volume is the next test's.
      if (step.kind == RelayoutKind::AllReduce) continue;
      const Moved moved =
          carry_out(step, start(layout, mesh, tensor.sizes), layout, mesh, tensor.sizes);
      const double formula = sent_by_formula(step, layout, mesh, tensor);
      RC_ASSERT(static_cast<double>(moved.traffic.received) == formula);
    }
  }));
}

TEST_CASE("a reduce-scatter, then a gather, leaves everywhere what an all-reduce does") {
  CHECK(rc::check([] {
    const Mesh mesh = mesh_of({*between<std::int64_t>(2, 5), 2});
    const MovedTensor tensor{{2 * mesh.size(a), 3}};
    const Layout from = partial(cut({{}, {}}), {a});
    const Layout middle = cut({{a}, {}});
    const RelayoutStep scatter{.kind = RelayoutKind::ReduceScatter, .axes = {a}, .to = DimId(0)};
    const RelayoutStep gather{.kind = RelayoutKind::AllGather, .axes = {a}, .from = DimId(0)};
    const RelayoutStep reduce{.kind = RelayoutKind::AllReduce, .axes = {a}};
    const State before = start(from, mesh, tensor.sizes);
    const Moved first = carry_out(scatter, before, from, mesh, tensor.sizes);
    const Moved second = carry_out(gather, first.state, middle, mesh, tensor.sizes);
    RC_ASSERT(second.state == carry_out(reduce, before, from, mesh, tensor.sizes).state);
    RC_ASSERT(static_cast<double>(first.traffic.received + second.traffic.received) ==
              sent_by_formula(reduce, from, mesh, tensor));
  }));
}

}  // namespace meshwright
