#include <cuda_runtime_api.h>

#include <catch2/catch.hpp>
#include <map>

#include "tests/simulator/small_models.h"
#include "tests/standin/launches.h"
#include "tests/standin/small_run.h"

// What the stand-in finds in captured streams, and training by CUDA graphs.
namespace meshwright::standin {
namespace {

// Two streams of a device, captured with whatever is given to them.
struct Captured {
  Captured() {
    restart({.devices = 1, .seed = 4});
    for (cudaStream_t* stream : {&first, &second}) {
      REQUIRE(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking) == cudaSuccess);
    }
    for (cudaEvent_t* event : {&forked, &joined}) REQUIRE(cudaEventCreate(event) == cudaSuccess);
    void* memory = nullptr;
    REQUIRE(cudaMalloc(&memory, 2 * sizeof(int)) == cudaSuccess);
    numbers = static_cast<int*>(memory);
    REQUIRE(cudaMemsetAsync(numbers, 0, 2 * sizeof(int), first) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(first) == cudaSuccess);
  }
  void begin() const {
    REQUIRE(cudaStreamBeginCapture(first, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  }
  void fork() const {
    REQUIRE(cudaEventRecord(forked, first) == cudaSuccess);
    REQUIRE(cudaStreamWaitEvent(second, forked, 0) == cudaSuccess);
  }
  void join() const {
    REQUIRE(cudaEventRecord(joined, second) == cudaSuccess);
    REQUIRE(cudaStreamWaitEvent(first, joined, 0) == cudaSuccess);
  }
  cudaError_t end() { return cudaStreamEndCapture(first, &graph); }
  int number(int i) const {
    int value = 0;
    REQUIRE(cudaMemcpyAsync(&value, numbers + i, sizeof(int), cudaMemcpyDeviceToHost, first) ==
            cudaSuccess);
    REQUIRE(cudaStreamSynchronize(first) == cudaSuccess);
    return value;
  }

  cudaStream_t first = nullptr, second = nullptr;
  cudaEvent_t forked = nullptr, joined = nullptr;
  cudaGraph_t graph = nullptr;
  int* numbers = nullptr;
};

void launch_add_to(int* to, const int* from, int value, cudaStream_t stream) {
  launch_blocks("add", 1, 1, stream, [=] { *to = *from + value; });
}

}  // namespace

TEST_CASE("a graph runs what was captured whenever it is launched, and not before") {
  Captured captured;
  int* const a = captured.numbers;
  captured.begin();
  launch_add_to(a, a, 1, captured.first);
  captured.fork();
  launch_add_to(a + 1, a, 10, captured.second);
  captured.join();
  launch_add_to(a, a + 1, 100, captured.first);
  REQUIRE(captured.end() == cudaSuccess);
  CHECK(captured.number(0) == 0);
  cudaGraphExec_t run = nullptr;
  REQUIRE(cudaGraphInstantiate(&run, captured.graph, 0) == cudaSuccess);
  for (const int expected : {111, 222, 333}) {
    REQUIRE(cudaGraphLaunch(run, captured.first) == cudaSuccess);
    CHECK(captured.number(0) == expected);
  }
  CHECK(cudaGraphExecDestroy(run) == cudaSuccess);
  CHECK(cudaGraphDestroy(captured.graph) == cudaSuccess);
  CHECK(faults().empty());
}

TEST_CASE("what must not be captured is a fault") {
  Captured captured;
  SECTION("waiting for a stream") {
    captured.begin();
    CHECK(cudaStreamSynchronize(captured.first) == cudaErrorStreamCaptureUnsupported);
    CHECK(has_fault("cudaStreamSynchronize: while a stream is captured"));
  }
  SECTION("asking for an event") {
    captured.begin();
    REQUIRE(cudaEventRecord(captured.forked, captured.first) == cudaSuccess);
    CHECK(cudaEventQuery(captured.forked) == cudaErrorStreamCaptureUnsupported);
  }
  SECTION("taking memory") {
    captured.begin();
    void* memory = nullptr;
    CHECK(cudaMalloc(&memory, 4) == cudaErrorStreamCaptureUnsupported);
  }
  SECTION("a stream that is not joined") {
    captured.begin();
    captured.fork();
    launch_add_to(captured.numbers, captured.numbers, 1, captured.second);
    CHECK(captured.end() == cudaErrorStreamCaptureUnjoined);
  }
  SECTION("an event from before the capture") {
    REQUIRE(cudaEventRecord(captured.joined, captured.second) == cudaSuccess);
    captured.begin();
    CHECK(cudaStreamWaitEvent(captured.first, captured.joined, 0) ==
          cudaErrorStreamCaptureIsolation);
  }
  SECTION("an event of a capture that has ended") {
    captured.begin();
    captured.fork();
    captured.join();
    REQUIRE(captured.end() == cudaSuccess);
    CHECK(cudaStreamWaitEvent(captured.second, captured.forked, 0) == cudaErrorCapturedEvent);
  }
  SECTION("memory that is not pinned") {
    captured.begin();
    int value = 0;
    CHECK(cudaMemcpyAsync(captured.numbers, &value, sizeof(int), cudaMemcpyHostToDevice,
                          captured.first) == cudaErrorStreamCaptureUnsupported);
  }
  CHECK(!faults().empty());
}

TEST_CASE("a step that was captured is launched again, with new inputs and settings") {
  for (const char* choices :
       {"dp=2,zero=1", "pp=2,microbatch=1", "offload=activations+optimizer"}) {
    CAPTURE(choices);
    SmallRun run(choices);
    run.run_options.graphs = true;
    std::int64_t launches = 0;
    for (const std::int64_t steps : {2, 6}) {
      run.steps = steps;
      const Trained expected = run.on_processors();
      CHECK(!is_noticed(run, expected, {.devices = 2, .seed = 8}));
      const auto devices = static_cast<std::int64_t>(devices_of(run.plan).size());
      CHECK(calls_of("cudaGraphInstantiate") == 2 * devices);
      CHECK(calls_of("cudaGraphLaunch") == 2 * devices * (steps - 1));
      // Nothing is launched one by one any more.
      if (steps > 2) CHECK(calls_of("cudaLaunchKernel") == launches);
      launches = calls_of("cudaLaunchKernel");
    }
  }
}

TEST_CASE("a graph of a step that fails ends training with an error") {
  SmallRun run("pp=2,microbatch=2");
  run.steps = 3;
  run.run_options.graphs = true;
  run.on_gpus({.devices = 2, .seed = 2});
  std::map<std::string, std::int64_t> counts;
  for (const char* function :
       {"cudaStreamBeginCapture", "cudaStreamEndCapture", "cudaGraphInstantiate", "cudaGraphLaunch",
        "ncclSend", "kernel", "cudaEventRecordWithFlags"}) {
    counts[function] = calls_of(function);
    REQUIRE(counts[function] > 0);
  }
  for (const auto& [function, count] : counts) {
    const std::int64_t call = 1 + count * 3 / 4;
    CAPTURE(function, call);
    std::string message;
    try {
      run.on_gpus({.devices = 2, .seed = 2, .patience_s = 10, .failure = Failure{function, call}});
    } catch (const std::exception& error) {
      message = error.what();
    }
    CHECK_THAT(message, Catch::Contains("device "));
  }
}

TEST_CASE("rows that are counted are refused where steps are captured") {
  restart({.devices = 2});
  const Model model = small_model({.family = "mixtral"});
  const Plan plan = small_plan("dp=2,ep=2", model, 4, 8);
  CHECK_THROWS_WITH(train(
                        model, plan, 2, usual_settings(), [](std::vector<Program>&) {},
                        gpus(2, {.graphs = true})),
                    Catch::Contains("without --cuda-graphs"));
}

}  // namespace meshwright::standin
