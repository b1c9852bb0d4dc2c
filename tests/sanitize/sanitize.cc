// Many chains of every kind on several threads, to be built with the sanitizers. Answers have to be
// the same however many threads there are.
#include <cstdio>
#include <cstdlib>
#include <random>

#include "chains.h"
#include "fhmm.h"
#include "lattice.h"
#include "race.h"
#include "repeated.h"

using namespace hopscale;

struct Batch {
  size_t n, chains;
  std::vector<float> s;
  std::vector<int32_t> length, sites, repeats, plain;
  std::vector<uint8_t> chosen, flags, again;
  std::vector<float> scores;  // four a chain
  std::vector<float> ratios, sums;
};

static Batch make(size_t n, size_t chains) {
  Batch b;
  b.n = n;
  b.chains = chains;
  b.s.resize(n * chains);
  b.length.resize(chains);
  for (auto* x : {&b.sites, &b.repeats, &b.plain}) x->resize(n * chains);
  for (auto* x : {&b.chosen, &b.flags, &b.again}) x->resize(n * chains);
  b.scores.resize(4 * chains);
  b.ratios.resize(n * chains);
  b.sums.resize(5 * chains);
  std::mt19937 random(static_cast<unsigned>(n));
  std::uniform_real_distribution<float> unit(0, 1);
  const float inf = std::numeric_limits<float>::infinity();
  for (size_t c = 0; c < chains; ++c) {
    const int kind = static_cast<int>(c % 7);
    b.length[c] = c % 5 == 0 ? static_cast<int32_t>(n)
                             : static_cast<int32_t>(random() % (n + 3)) - (c % 11 == 0 ? 5 : 0);
    for (size_t i = 0; i < n; ++i) {
      const float u = unit(random);
      float s = 4 * u - 2;
      if (kind == 1) s *= 100;
      if (kind == 2 && u < 0.5f) s = -inf;
      if (kind == 3 && u < 0.1f) s = std::numeric_limits<float>::quiet_NaN();
      if (kind == 4) s = -inf;
      if (kind == 5 && i == n / 2) s = inf;
      if (kind == 6) s = u < 0.1f ? 0 : -69;
      b.s[c * n + i] = s;
    }
  }
  return b;
}

static void run(Batch& b, size_t helpers) {
  std::vector<std::thread> threads;
  for_each_chain(
      Team(helpers, [&](auto task) { threads.emplace_back(std::move(task)); }), b.chains, b.n,
      [&b](size_t c, const Team& team) {
        const size_t at = c * b.n, n = b.n;
        const float* s = b.s.data() + at;
        const auto balance = static_cast<Balance>(c % 3);
        const Key key = {static_cast<uint32_t>(c), 7};
        const int32_t length = b.length[c];
        int32_t* sites = b.sites.data() + at;
        uint8_t* chosen = b.chosen.data() + at;
        b.scores[4 * c] = race(key, s, n, balance, length, sites, chosen, team);
        b.scores[4 * c + 1] = order_log_prob(s, n, balance, sites, chosen, length, true, team);
        b.scores[4 * c + 2] =
            repeated(key, s, n, balance, length, b.repeats.data() + at, b.again.data() + at, team);
        b.scores[4 * c + 3] = repeated_log_prob(s, n, balance, sites, length, team);
        uniform(key, n, length, b.plain.data() + at, b.again.data() + at, team);
        odd(b.repeats.data() + at, n, length, b.flags.data() + at);
        // The chosen sites as a lattice of one row, and of one column.
        const auto* x = reinterpret_cast<const int8_t*>(chosen);
        float* ratios = b.ratios.data() + at;
        b.sums[5 * c] = ising(x, s, 1, n, 0.3f, -0.2f, ratios, team);
        b.sums[5 * c + 1] = ising(x, s, n, 1, 0.3f, -0.2f, ratios, team);
        b.sums[5 * c + 2] = hamming(x, reinterpret_cast<const int8_t*>(b.again.data() + at), n);
        // And as hidden chains of either direction, in rows of one or of all.
        const bool long_rows = c % 2 == 0;
        const size_t rows = long_rows ? 1 : n;
        const Fhmm model = {s, s, rows, n / rows, 0.1f, 0.5f, 0.3f, -0.4f, c % 4 < 2, true};
        b.sums[5 * c + 3] = fhmm(model, x, ratios, team);
        b.sums[5 * c + 4] = fhmm_change(model, x, b.again.data() + at);
      });
  for (std::thread& thread : threads) thread.join();
}

template <typename T>
static void same(const std::vector<T>& a, const std::vector<T>& b, const char* what) {
  if (std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0) return;
  std::printf("%s differ\n", what);
  std::exit(1);
}

int main() {
  // The last is long enough for one chain to be shared among threads.
  for (size_t n : {1, 2, 7, 31, 32, 33, 127, 128, 129, 1000, 5003, 70001}) {
    const size_t chains = n > 50000 ? 4 : std::max<size_t>(42, 40000 / n);
    Batch alone = make(n, chains), shared = make(n, chains);
    run(alone, 0);
    run(shared, 5);
    same(alone.sites, shared.sites, "sites");
    same(alone.chosen, shared.chosen, "flags");
    same(alone.repeats, shared.repeats, "repeats");
    same(alone.plain, shared.plain, "uniform sites");
    same(alone.flags, shared.flags, "odd sites");
    same(alone.scores, shared.scores, "log-probabilities");
    same(alone.ratios, shared.ratios, "ratios");
    same(alone.sums, shared.sums, "sums");
  }
  std::puts("clean");
}
