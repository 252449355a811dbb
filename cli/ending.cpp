#include "cli/ending.h"

#include <filesystem>
#include <new>
#include <system_error>

#include "cli/session.h"
#include "costmodel/base/input_error.h"
#include "costmodel/profile/database_error.h"
#include "executor/agreement.h"
#include "executor/device_error.h"
#include "executor/environment_error.h"
#include "executor/memory_error.h"
#include "executor/numerical_error.h"

namespace meshwright {

ExitCode exit_code_of(const RunFailure& failure) {
  switch (failure.kind()) {
    case RunFailure::Kind::Died:
      return ExitCode::DeviceFailed;
    case RunFailure::Kind::Silent:
      return ExitCode::Hang;
    case RunFailure::Kind::Network:
      return ExitCode::Network;
    case RunFailure::Kind::Numerical:
      return ExitCode::Numerical;
    case RunFailure::Kind::Reported:
      return static_cast<ExitCode>(failure.code());
  }
  return ExitCode::Internal;
}

Ending ending_of(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const UsageError& error) {
    return {ExitCode::Usage, error.what()};
  } catch (const InputError& error) {
    return {ExitCode::BadInputFile, error.what()};
  } catch (const DatabaseError& error) {
    const bool damaged = error.kind() == DatabaseError::Kind::Damaged;
    return {damaged ? ExitCode::DatabaseDamaged : ExitCode::DatabaseUnavailable, error.what()};
  } catch (const EnvironmentError& error) {
    return {ExitCode::EnvironmentMissing, error.what()};
  } catch (const MemoryError& error) {
    return {ExitCode::OutOfMemory, error.what()};
  } catch (const std::bad_alloc&) {
    return {ExitCode::OutOfMemory, "out of memory"};
  } catch (const NumericalError& error) {
    return {ExitCode::Numerical, error.what()};
  } catch (const DeviceError& error) {
    return {ExitCode::DeviceFailed, error.what()};
  } catch (const Disagreement& disagreement) {
    return {ExitCode::Network, disagreement.what()};
  } catch (const RunFailure& failure) {
    return {exit_code_of(failure), failure.what()};
  } catch (const EndedWith& ended) {
    return {ended.code(), ended.what()};
  } catch (const EndedBySignal& ended) {
    return {static_cast<ExitCode>(128 + ended.signal()), ended.what()};
  } catch (const std::filesystem::filesystem_error& error) {
    return {ExitCode::InputOutput,
            printable(error.path1().string()) + ": " + error.code().message()};
  } catch (const std::system_error& error) {
    return {ExitCode::InputOutput, error.what()};
  } catch (const std::exception& error) {
    return {ExitCode::Internal, std::string("internal error: ") + error.what()};
  }
}

}  // namespace meshwright
