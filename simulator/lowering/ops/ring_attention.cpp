// Attention of devices that have a part of the sequence each. Queries stay where they are; keys and
// values of all parts come past, and what queries make of them is merged by the log of the sums of
// exponentials (Liu et al. 2023, arXiv 2310.01889). While a part is worked on the next one comes.
// In the backward they come past again, and the gradients of a part follow it, each device adding
// its own, until they are back with whoever has the part.

#include "simulator/lowering/ops/attention.h"
#include "simulator/lowering/ring_order.h"

namespace meshwright {
namespace {

// Keys and values of one part of the sequence, or their gradients.
struct KeyBlock {
  View k, v;
};

// The order of the ring that an attention's keys are cut over, with its devices.
class Ring : public RingOrder {
 public:
  Ring(const FragmentWriter& writer, std::size_t op)
      : Ring(writer, writer.layouts(op).inputs[1].dims[1]) {}

  DeviceId device(std::size_t member) const { return members_[member]; }
  // Where the part at hand at a step stands in the sequence.
  const DimPlace& place(std::int64_t step) const { return places_[source(step)]; }
  // Whether a device that has a member's part at one of these steps has queries that see it.
  bool is_seen(std::size_t member, std::int64_t first, std::int64_t end,
               const AttentionAttributes& attributes) const {
    for (std::int64_t step = first; step < end; ++step) {
      const auto& queries = places_[holder(member, step)].ranges;
      if (seen_pairs(queries, places_[member].ranges, attributes) > 0) return true;
    }
    return false;
  }

 private:
  Ring(const FragmentWriter& writer, const DimLayout& keys)
      : RingOrder(writer.placement().mesh(), keys.sharding.axes, writer.placement().coordinates()),
        members_(writer.placement().group(keys.sharding.axes)) {
    const Mesh& mesh = writer.placement().mesh();
    for (const DeviceId device : members_) {
      places_.push_back({writer.shards().ranges(keys, mesh.coordinates_at(*mesh.find(device))),
                         writer.shards().whole(keys.dim)});
    }
  }

  std::vector<DeviceId> members_;
  std::vector<DimPlace> places_;  // of the members' keys
};

// Calls visit(part, range) for each range of a place: where it is in the device's own, and in all.
template <class Visit>
void for_each_piece(const DimPlace& place, Visit visit) {
  std::int64_t first = 0;
  for (const ShardRange& range : place.ranges) {
    visit(ShardRange{first, range.size}, range);
    first += range.size;
  }
}

// Room for a block like this one.
KeyBlock new_block(FragmentWriter& writer, const KeyBlock& like, const std::string& name) {
  return {writer.new_view(name, like.k.operand.sizes, BufferElement::Real, Component::Transfers),
          writer.new_view(name, like.v.operand.sizes, BufferElement::Real, Component::Transfers)};
}

void send_block(FragmentWriter& writer, const KeyBlock& block, DeviceId to) {
  writer.send_to(to, block.k);
  writer.send_to(to, block.v);
}

void receive_block(FragmentWriter& writer, const KeyBlock& block, DeviceId from) {
  writer.receive_from(from, block.k);
  writer.receive_from(from, block.v);
}

using MaybeBlock = std::optional<KeyBlock>;

// Keys and values on their way past a device. What nobody further on looks at is not passed on.
class Passing {
 public:
  // `all`: everybody looks at everything.
  Passing(FragmentWriter& writer, std::size_t op, const Ring& ring, bool all)
      : writer_(writer),
        ring_(ring),
        name_(writer.op(op).name),
        attributes_(std::get<AttentionAttributes>(writer.op(op).attributes)),
        all_(all),
        own_{writer.input(op, 1), writer.input(op, 2)} {}

  // Calls prepare(step) and then, with the part at hand and its successor on its way,
  // visit(step, block).
  template <class Prepare, class Visit>
  void walk(Prepare prepare, Visit visit) {
    MaybeBlock block = own_, of_next_round;
    for (std::int64_t step = 0; step < ring_.steps(); ++step) {
      prepare(step);
      if (ring_.starts_round(step) && !ring_.is_last_round(step)) {
        of_next_round = exchange(step, ring_.end_of_round(step), ring_.steps(), block, 1, 0);
      }
      MaybeBlock next = of_next_round;
      if (!ring_.ends_round(step)) {
        next = exchange(step, step + 1, ring_.end_of_round(step), block, 0, 1);
      }
      if (block) visit(step, *block);
      block = next;
    }
  }

 private:
  // With those so many rings and places before and behind, where the blocks are wanted at these
  // steps. Sends come first everywhere, so that nobody waits for a device that waits for it.
  MaybeBlock exchange(std::int64_t step, std::int64_t first, std::int64_t end,
                      const MaybeBlock& block, std::int64_t rings, std::int64_t turns) {
    const auto wanted = [&](std::size_t member) {
      return all_ || ring_.is_seen(member, first, end, attributes_);
    };
    if (wanted(ring_.source(step))) {
      send_block(writer_, *block, ring_.device(ring_.further(rings, turns)));
    }
    if (!wanted(ring_.source(first))) return std::nullopt;
    const KeyBlock came = new_block(writer_, own_, name_);
    receive_block(writer_, came, ring_.device(ring_.further(-rings, -turns)));
    return came;
  }

  FragmentWriter& writer_;
  const Ring& ring_;
  const std::string name_;
  const AttentionAttributes attributes_;
  const bool all_;
  const KeyBlock own_;
};

KeptShape shape_of(const View& queries, std::int64_t keys) {
  const Operand q = as_heads(queries.operand);
  return {.rows = q.sizes[0] * q.sizes[1] * q.sizes[2], .keys = keys};
}

KernelDraft draft_of(FragmentWriter& writer, std::size_t op, Phase phase, const KeyBlock& block,
                     const DimPlace& keys) {
  KernelDraft call(KernelKind::Attention, phase, writer.op(op));
  call.kernel().place = attention_place(writer, op, keys);
  const View q = writer.input(op, 0);
  for (const View& x : {q, block.k, block.v}) call.read(x, as_heads(x.operand));
  return call;
}

void forward_block(FragmentWriter& writer, std::size_t op, const View& y, const KeyBlock& block,
                   const DimPlace& keys, bool merges) {
  KernelDraft call = draft_of(writer, op, Phase::Forward, block, keys);
  // Keys that the mask hides from all queries are passed on and not looked at.
  if (merges && seen_flops_of(call.kernel()) == Flops(0)) return;
  call.kernel().accumulate = merges;
  call.write(y, as_heads(y.operand));
  for (const View& kept : writer.statistics(op)) call.write(kept);
  writer.add_workspace(op, shape_of(writer.input(op, 0), block.k.operand.sizes[1]), call);
  writer.emit(call);
}

// Gradients of the queries, keys and values, whatever they were.
void backward_block(FragmentWriter& writer, std::size_t op, const KeyBlock& block,
                    const DimPlace& keys, const View& y, const View& dy,
                    const std::vector<View>& results) {
  KernelDraft call = draft_of(writer, op, Phase::InputGradient, block, keys);
  if (writer.plan().kernels != KernelSet::Unfused) call.read(y, as_heads(y.operand));
  for (const View& kept : writer.statistics(op)) call.read(kept);
  call.read(dy, as_heads(dy.operand));
  for (const View& result : results) call.write(result, as_heads(result.operand));
  writer.add_workspace(op, shape_of(writer.input(op, 0), block.k.operand.sizes[1]), call);
  writer.emit(call);
}

void add_block(FragmentWriter& writer, const std::string& name, const KeyBlock& from,
               const KeyBlock& to) {
  writer.emit_copy(from.k, to.k, name, true);
  writer.emit_copy(from.v, to.v, name, true);
}

View like(FragmentWriter& writer, const std::string& name, const View& view) {
  return writer.new_view(name, view.operand.sizes, BufferElement::Real, Component::Transfers);
}

void keep_statistics(FragmentWriter& writer, std::size_t op, const View& y, std::int64_t keys) {
  const Operand result = as_heads(y.operand);
  writer.keep(op, shape_of(writer.input(op, 0), keys),
              {{"lse", {result.sizes[0], result.sizes[2], result.sizes[1]}}});
}

void forward_in_turn(FragmentWriter& writer, std::size_t op, const View& y) {
  const Ring ring(writer, op);
  keep_statistics(writer, op, y, ring.place(0).size);
  Passing(writer, op, ring, false)
      .walk([](std::int64_t) {},
            [&](std::int64_t step, const KeyBlock& block) {
              forward_block(writer, op, y, block, ring.place(step), step > 0);
            });
}

// Gradients of a part's keys and values follow it a step behind: the first device that the part
// comes to starts them, and what its owner has to add waits for them at home. What one device sends
// another in a step comes before what it sends in the next.
void backward_in_turn(FragmentWriter& writer, std::size_t op, const View& y, const View& dy,
                      const std::vector<View>& own) {
  const Ring ring(writer, op);
  const std::string name = "d " + writer.op(op).name;
  const KeyBlock home{own[1], own[2]};
  KeyBlock came = home;
  const auto receive = [&](std::int64_t step) {
    came = new_block(writer, home, name);
    receive_block(writer, came, ring.device(ring.holder_before(step)));
  };
  const auto prepare = [&](std::int64_t step) {
    if (step > 1) receive(step);
  };
  Passing passing(writer, op, ring, true);
  passing.walk(prepare, [&](std::int64_t step, const KeyBlock& block) {
    if (step == 0) return backward_block(writer, op, block, ring.place(0), y, dy, own);
    KeyBlock sum = new_block(writer, home, name);
    const View dq = like(writer, name, own[0]);
    backward_block(writer, op, block, ring.place(step), y, dy, {dq, sum.k, sum.v});
    writer.emit_copy(dq, own[0], name, true);
    if (step > 1) {
      add_block(writer, name, sum, came);
      sum = came;
    }
    send_block(writer, sum, ring.device(ring.next_holder(step)));
  });
  receive(0);
  add_block(writer, name, came, home);
}

// Keys or values of the whole sequence, in its order: parts are passed on from neighbour to
// neighbour, and each is put where it belongs. A device that receives must not have to wait until
// it has sent, so what comes has a buffer of its own.
View gather_in_turn(FragmentWriter& writer, std::size_t op, const View& own) {
  const Ring ring(writer, op);
  const std::string& name = writer.op(op).name;
  Extents sizes = own.operand.sizes;
  sizes[1] = ring.place(0).size;
  const View whole =
      writer.new_view(name, std::move(sizes), BufferElement::Real, Component::Transfers);
  View part = own;
  for (std::int64_t step = 0; step < ring.steps(); ++step) {
    View next = part;
    if (step + 1 < ring.steps()) {
      writer.send_to(ring.device(ring.next_holder(step)), part);
      next = like(writer, name, own);
      writer.receive_from(ring.device(ring.holder_before(step + 1)), next);
    }
    for_each_piece(ring.place(step), [&](const ShardRange& piece, const ShardRange& range) {
      writer.emit_copy(slice_of(part, 1, piece), slice_of(whole, 1, range), name);
    });
    part = next;
  }
  return whole;
}

DimPlace all_keys(const FragmentWriter& writer, std::size_t op) {
  const std::int64_t size = writer.shards().whole(writer.layouts(op).inputs[1].dims[1].dim);
  return {{{0, size}}, size};
}

KeyBlock all_blocks(FragmentWriter& writer, std::size_t op) {
  const View k = gather_in_turn(writer, op, writer.input(op, 1));
  return {k, gather_in_turn(writer, op, writer.input(op, 2))};
}

void forward_at_once(FragmentWriter& writer, std::size_t op, const View& y) {
  const DimPlace keys = all_keys(writer, op);
  keep_statistics(writer, op, y, keys.size);
  forward_block(writer, op, y, all_blocks(writer, op), keys, false);
}

// Every device has a part of the gradients of all keys.
void backward_at_once(FragmentWriter& writer, std::size_t op, const View& y, const View& dy,
                      const std::vector<View>& own) {
  const std::string name = "d " + writer.op(op).name;
  const KeyBlock blocks = all_blocks(writer, op);
  const KeyBlock sums = new_block(writer, blocks, name);
  backward_block(writer, op, blocks, all_keys(writer, op), y, dy, {own[0], sums.k, sums.v});
  const DimLayout& keys = writer.layouts(op).inputs[1].dims[1];
  const DimPlace place = writer.shards().place(writer.layouts(op).inputs[1])[1];
  for (const auto& [sum, target] : {std::pair(sums.k, own[1]), std::pair(sums.v, own[2])}) {
    writer.all_reduce(sum, keys.sharding.axes);
    for_each_piece(place, [&](const ShardRange& part, const ShardRange& range) {
      writer.emit_copy(slice_of(sum, 1, range), slice_of(target, 1, part), name);
    });
  }
}

bool is_at_once(const FragmentWriter& writer, std::size_t op) {
  return writer.implementation(op) == Implementation::RingSelfAttention;
}

}  // namespace

bool is_ring(const FragmentWriter& writer, std::size_t op) {
  return writer.implementation(op) != Implementation::Local &&
         !writer.layouts(op).inputs[1].dims[1].sharding.axes.empty();
}

void forward_ring(FragmentWriter& writer, std::size_t op) {
  const FragmentWriter::Output y = writer.start_output(op);
  if (is_at_once(writer, op)) {
    forward_at_once(writer, op, y.computed);
  } else {
    forward_in_turn(writer, op, y.computed);
  }
  writer.finish_output(op, y);
}

void backward_ring(FragmentWriter& writer, std::size_t op) {
  const View dy = writer.output_gradient(op);
  const View y = writer.output(op);
  std::vector<View> own;
  for (std::size_t i = 0; i < 3; ++i) own.push_back(writer.separate_target(op, i));
  if (is_at_once(writer, op)) {
    backward_at_once(writer, op, y, dy, own);
  } else {
    backward_in_turn(writer, op, y, dy, own);
  }
  for (std::size_t i = 0; i < 3; ++i) writer.add_gradient(op, i, own[i]);
}

}  // namespace meshwright
