// Dividing work among threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <thread>

namespace hopscale {

using std::size_t;

// Threads that may help. The default is to work alone.
class Team {
 public:
  using Task = std::function<void()>;

  Team() = default;
  Team(size_t helpers, std::function<void(Task)> schedule)
      : helpers_(helpers), schedule_(std::move(schedule)) {}

  size_t helpers() const { return helpers_; }

  // Calls body(piece) for every piece, on this thread and on tasks handed to the scheduler, if the
  // work, in sites, is worth it. All of them take pieces from one counter. The caller waits for
  // pieces that others have begun, never for a task to begin: a task that comes late finds the
  // counter spent and touches nothing else. So nothing depends on when, or whether, the tasks run.
  template <typename Body>
  void share(size_t pieces, size_t work, Body body) const {
    constexpr size_t worth_sharing = 20000;
    const size_t helpers = work < worth_sharing || pieces < 2 ? 0 : std::min(helpers_, pieces - 1);
    if (helpers == 0) {
      for (size_t piece = 0; piece < pieces; ++piece) body(piece);
      return;
    }
    struct State {
      std::atomic<size_t> next{0}, done{0};
    };
    const auto state = std::make_shared<State>();
    const auto some = [state, body, pieces] {
      for (size_t piece; (piece = state->next.fetch_add(1)) < pieces; state->done.fetch_add(1))
        body(piece);
    };
    for (size_t helper = 0; helper < helpers; ++helper) schedule_(some);
    some();
    while (state->done.load() < pieces) std::this_thread::yield();
  }

 private:
  size_t helpers_ = 0;
  std::function<void(Task)> schedule_;
};

// Calls body(chain, team) for every chain. If there are fewer chains than threads, and chains are
// long, the chains come one after another and each is divided among the team. Otherwise the chains
// are divided among the team, and one thread works on each.
template <typename Body>
void for_each_chain(const Team& team, size_t chains, size_t sites, Body body) {
  constexpr size_t worth_splitting = 50000, worth_fetching = 2000;
  if (chains <= team.helpers() && sites >= worth_splitting) {
    for (size_t chain = 0; chain < chains; ++chain) body(chain, team);
    return;
  }
  const size_t grain = std::max<size_t>(1, worth_fetching / std::max<size_t>(1, sites));
  team.share((chains + grain - 1) / grain, chains * sites, [=](size_t piece) {
    const Team alone;
    for (size_t c = piece * grain; c < std::min(chains, (piece + 1) * grain); ++c) body(c, alone);
  });
}

}  // namespace hopscale
