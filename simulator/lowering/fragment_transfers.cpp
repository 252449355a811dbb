// Transfers of a fragment: the steps of relayouts, and messages between chunks.

#include <algorithm>
#include <cassert>
#include <numeric>

#include "simulator/lowering/fragment_writer.h"

namespace meshwright {

namespace {

// Where ranges of a dimension lie in what a device holds of it, which is `held`.
std::vector<ShardRange> places_in(const std::vector<ShardRange>& held,
                                  const std::vector<ShardRange>& ranges) {
  std::vector<ShardRange> places;
  for (const ShardRange& range : ranges) {
    std::int64_t before = 0;
    for (const ShardRange& own : held) {
      const bool inside = range.start >= own.start && range.start < own.start + own.size;
      if (inside) places.push_back({before + range.start - own.start, range.size});
      before += own.size;
    }
  }
  return places;
}

// Without parts if these are all of `size`, equal and in order, which is what no parts stand for.
Cut compact(Cut cut, std::int64_t size) {
  std::int64_t next = 0;
  for (const auto& part : cut.parts) {
    const bool in_order =
        part.size() == 1 && part[0].start == next && part[0].size == size_of(cut.parts.front());
    if (!in_order) return cut;
    next += part[0].size;
  }
  if (next != size) return cut;
  cut.parts.clear();
  return cut;
}

}  // namespace

FragmentTask FragmentWriter::transfer_task(Transfer transfer, const View& from,
                                           const View& to) const {
  FragmentTask task;
  if (transfer.kind != TransferKind::Receive) {
    transfer.source = from.operand;
    task.operands.push_back(from.buffer);
  }
  if (transfer.kind != TransferKind::Send) {
    transfer.target = to.operand;
    task.operands.push_back(to.buffer);
  }
  task.work = std::move(transfer);
  task.phase = phase();
  return task;
}

Purpose FragmentWriter::purpose_along(const std::vector<AxisId>& axes, Purpose purpose) const {
  if (purpose != Purpose::Tensor || axes.empty()) return purpose;
  const auto is_context = [&](AxisId axis) { return std::ranges::count(context_axes_, axis) > 0; };
  return std::ranges::all_of(axes, is_context) ? Purpose::Context : purpose;
}

void FragmentWriter::all_reduce(const View& view, const std::vector<AxisId>& axes,
                                Reduction reduction, Purpose purpose) {
  add_task(transfer_task({.kind = TransferKind::AllReduce,
                          .reduction = reduction,
                          .purpose = purpose_along(axes, purpose),
                          .group = placement_.group(axes)},
                         view, view));
}

void FragmentWriter::send_to(DeviceId device, const View& view) {
  add_task(transfer_task({.kind = TransferKind::Send,
                          .purpose = Purpose::Context,
                          .group = {placement_.device(), device}},
                         view, view));
}

void FragmentWriter::receive_from(DeviceId device, const View& view) {
  FragmentTask task = transfer_task({.kind = TransferKind::Receive,
                                     .purpose = Purpose::Context,
                                     .group = {device, placement_.device()}},
                                    view, view);
  task.waits_for_compute = true;
  add_task(std::move(task));
}

void FragmentWriter::emit_copy(const View& from, const View& to, const std::string& name,
                               bool adds) {
  GraphOp op;
  op.name = name;
  KernelDraft copy(KernelKind::Sum, phase(), op);
  copy.kernel().accumulate = adds;
  FragmentTask task = copy.read(from).write(to).take();
  task.phase = phase();
  add_task(std::move(task));
}

void FragmentWriter::send(const View& view, const Message& message) {
  add_task(transfer_task(
      {.kind = TransferKind::Send,
       .purpose = Purpose::Pipeline,
       .group = {placement_.device(), placement_.peer(plan_.chunks[message.chunk].slot)}},
      view, view));
}

void FragmentWriter::receive(const View& view, const Message& message) {
  FragmentTask task = transfer_task(
      {.kind = TransferKind::Receive,
       .purpose = Purpose::Pipeline,
       .group = {placement_.peer(plan_.chunks[message.chunk].slot), placement_.device()}},
      view, view);
  task.received = message;
  add_task(std::move(task));
}

// How what `coarse` gives a device is shared out by `fine` among the members of a group.
Cut FragmentWriter::cut_of(const Layout& coarse, const Layout& fine, DimId dim,
                           const std::vector<DeviceId>& group) const {
  Cut cut{.dim = position_of(coarse, dim)};
  const std::vector<ShardRange> held =
      shards_.ranges(coarse.dims[cut.dim], placement_.coordinates());
  for (const DeviceId member : group) {
    const Mesh& mesh = placement_.mesh();
    cut.parts.push_back(places_in(
        held, shards_.ranges(fine.dims[cut.dim], mesh.coordinates_at(*mesh.find(member)))));
  }
  return compact(std::move(cut), size_of(held));
}

Pieces FragmentWriter::pieces_of(const DimLayout& sequence) const {
  const Mesh& mesh = placement_.mesh();
  const std::int64_t whole = shards_.whole(sequence.dim);
  std::int64_t size = whole;
  for (const DeviceId member : placement_.group(sequence.sharding.axes)) {
    for (const ShardRange& range :
         shards_.ranges(sequence, mesh.coordinates_at(*mesh.find(member)))) {
      size = std::gcd(size, std::gcd(range.start, range.size));
    }
  }
  return {whole / size, size};
}

void FragmentWriter::gather_pieces(const View& own, const View& all, const DimLayout& sequence,
                                   const Pieces& pieces) {
  const Mesh& mesh = placement_.mesh();
  const std::vector<DeviceId> group = placement_.group(sequence.sharding.axes);
  Cut cut{.dim = 1};
  for (const DeviceId member : group) {
    std::vector<ShardRange> part =
        shards_.ranges(sequence, mesh.coordinates_at(*mesh.find(member)));
    for (ShardRange& range : part) range = {range.start / pieces.size, range.size / pieces.size};
    cut.parts.push_back(std::move(part));
  }
  add_task(transfer_task({.kind = TransferKind::AllGather,
                          .purpose = Purpose::Experts,
                          .group = group,
                          .target_cut = compact(std::move(cut), pieces.count)},
                         own, all));
}

void FragmentWriter::emit_slice(const Cut& cut, const View& from, const View& to,
                                const std::string& name) {
  std::int64_t next = 0;
  for (const ShardRange& range : part_of(cut, from.operand.sizes[cut.dim], 0, 1)) {
    emit_copy(slice_of(from, cut.dim, range), slice_of(to, cut.dim, {next, range.size}), name);
    tasks_->back().slices = true;
    next += range.size;
  }
}

void FragmentWriter::emit_step(const RelayoutStep& step, const Layout& before, const View& from,
                               const View& to, const std::string& name, Purpose purpose) {
  const Layout after = *layout_after(step, before);
  const bool alone = step.kind == RelayoutKind::Slice;
  std::vector<DeviceId> group =
      alone ? std::vector{placement_.device()} : placement_.group(step.axes);
  Cut source, target;
  if (step.to) source = cut_of(before, after, *step.to, group);
  if (step.from) target = cut_of(after, before, *step.from, group);
  if (alone) return emit_slice(source, from, to, name);
  add_task(transfer_task({.kind = transfer_kind(step.kind),
                          .purpose = purpose_along(step.axes, purpose),
                          .group = std::move(group),
                          .source_cut = std::move(source),
                          .target_cut = std::move(target)},
                         from, to));
}

ShardRange FragmentWriter::range_at(const RelayoutStep& gather, const Layout& kept,
                                    std::size_t place) const {
  const Mesh& mesh = placement_.mesh();
  const DeviceId member = placement_.group(gather.axes)[place];
  const auto ranges = shards_.ranges(kept.dims[position_of(kept, *gather.from)],
                                     mesh.coordinates_at(*mesh.find(member)));
  assert(ranges.size() == 1);
  return ranges.front();
}

View FragmentWriter::broadcast(const RelayoutStep& gather, const Layout& kept, const View& own,
                               std::size_t place, const std::string& name, Purpose purpose,
                               Phase phase) {
  std::vector<DeviceId> group = placement_.group(gather.axes);
  // The first of a group is the one that sends.
  std::rotate(group.begin(), group.begin() + static_cast<std::ptrdiff_t>(place), group.end());
  Extents sizes = own.operand.sizes;
  sizes[position_of(kept, *gather.from)] = range_at(gather, kept, place).size;
  const View part = new_view(name, std::move(sizes), own.operand.element, Component::Transfers);
  const bool sends = group.front() == placement_.device();
  FragmentTask task = transfer_task(
      {.kind = TransferKind::Broadcast, .purpose = purpose, .group = std::move(group)},
      sends ? own : part, part);
  const bool backward = tasks_ == &fragment_.backward && !rerunning_;
  if (backward && phase == Phase::WeightGradient) task.phase = phase;
  add_task(std::move(task));
  return part;
}

void FragmentWriter::emit_steps(const RelayoutSteps& steps, Layout layout, View view,
                                const View& end, const std::string& name, Purpose purpose) {
  std::size_t last_move = steps.size();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (!is_in_place(steps[i])) last_move = i;
  }
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Layout after = *layout_after(steps[i], layout);
    if (is_in_place(steps[i])) {
      all_reduce(view, steps[i].axes);
    } else {
      const View next = i == last_move ? end
                                       : new_view(name, shards_.sizes(after), view.operand.element,
                                                  Component::Transfers);
      emit_step(steps[i], layout, view, next, name, purpose);
      view = next;
    }
    layout = after;
  }
}

}  // namespace meshwright
