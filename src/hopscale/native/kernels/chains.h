// Sharing chains out among threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <thread>

namespace hopscale {

using std::size_t;

// Calls body(chain) for every chain, on this thread and on up to `helpers` tasks handed to
// `schedule`. All of them draw from one counter. The caller waits for chains that others have
// begun, never for a task to begin: a task that comes late finds the counter spent and touches
// nothing but it. So nothing depends on when, or whether, the tasks run.
template <typename Schedule, typename Body>
void for_each_chain(size_t chains, size_t sites, size_t helpers, Schedule schedule, Body body) {
  constexpr size_t worth_sharing = 20000, worth_fetching = 2000;
  const size_t grain = std::max<size_t>(1, worth_fetching / std::max<size_t>(1, sites));
  const size_t pieces = (chains + grain - 1) / grain;
  helpers = chains * sites < worth_sharing || pieces < 2 ? 0 : std::min(helpers, pieces - 1);
  if (helpers == 0) {
    for (size_t chain = 0; chain < chains; ++chain) body(chain);
    return;
  }
  struct State {
    std::atomic<size_t> next{0}, done{0};
  };
  const auto state = std::make_shared<State>();
  auto work = [state, body, chains, grain, pieces] {
    for (size_t piece; (piece = state->next.fetch_add(1)) < pieces; state->done.fetch_add(1))
      for (size_t c = piece * grain; c < std::min(chains, (piece + 1) * grain); ++c) body(c);
  };
  for (size_t helper = 0; helper < helpers; ++helper) schedule(work);
  work();
  while (state->done.load() < pieces) std::this_thread::yield();
}

}  // namespace hopscale
