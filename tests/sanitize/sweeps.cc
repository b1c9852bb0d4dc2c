// Sweeps and sites of several values on several threads, to be built with the sanitizers. Answers
// have to be the same however many threads there are.
#include <cstdio>
#include <cstdlib>
#include <random>

#include "potts.h"
#include "race.h"
#include "sweep.h"
#include "value_race.h"

using namespace hopscale;

// A ring of an even number of sites in two colours, and numbers for all that is done with it.
struct Ring {
  size_t n, values;
  std::vector<int32_t> blocks, start, neighbour;
  std::vector<float> weight, field;
  std::vector<int8_t> x;
  Rows rows() const {
    return {blocks.data(), start.data(), neighbour.data(), weight.data(), 2, n / 2 + 1, n};
  }
};

static Ring make(size_t n, size_t values) {
  Ring ring{n, values, {}, {0}, {}, {}, {}, {}};
  std::mt19937 random(static_cast<unsigned>(n));
  std::normal_distribution<float> normal(0, 1);
  for (size_t colour = 0; colour < 2; ++colour) {
    for (size_t i = colour; i < n; i += 2) ring.blocks.push_back(static_cast<int32_t>(i));
    ring.blocks.push_back(static_cast<int32_t>(n));  // fills up
  }
  for (size_t i = 0; i < n; ++i) {
    for (size_t other : {(i + n - 1) % n, (i + 1) % n}) {
      ring.neighbour.push_back(static_cast<int32_t>(other));
      ring.weight.push_back(0.3f);
    }
    ring.start.push_back(static_cast<int32_t>(ring.neighbour.size()));
  }
  for (size_t i = 0; i < n * values; ++i) ring.field.push_back(normal(random));
  for (size_t i = 0; i < n * kLanes; ++i)
    ring.x.push_back(static_cast<int8_t>(random() % values));
  return ring;
}

struct Helpers {
  std::vector<std::thread> threads;
  Team team;
  explicit Helpers(size_t count)
      : team(count, [this](auto task) { threads.emplace_back(std::move(task)); }) {}
  ~Helpers() {
    for (std::thread& thread : threads) thread.join();
  }
};

static Lanes lanes_of(LaneMemory& memory, size_t n, bool sites) {
  Lanes lanes = memory.lanes(n);
  lanes.sites = sites;
  for (size_t l = 0; l < kLanes; ++l) {
    const size_t v = l / kVector, at = l % kVector;
    lanes.key.a[v][at] = static_cast<uint32_t>(l);
    lanes.key.b[v][at] = 7;
    lanes.beta[v][at] = 0.8f;
    lanes.gamma[v][at] = 0.2f;
  }
  return lanes;
}

template <typename Load, typename Store, typename Model>
static std::vector<int8_t> swept(const Ring& ring, const Model& model, bool sites, size_t helpers,
                                 Load load, Store store) {
  LaneMemory memory;
  Lanes lanes = lanes_of(memory, ring.n, sites);
  const int8_t* from[kLanes];
  std::vector<int8_t> y(ring.x.size());
  int8_t* to[kLanes];
  for (size_t l = 0; l < kLanes; ++l) {
    from[l] = ring.x.data() + l * ring.n;
    to[l] = y.data() + l * ring.n;
  }
  double gain[kLanes] = {};
  load(from, lanes);
  {
    Helpers with(helpers);
    sweep(model, lanes, 3, with.team, gain);
  }
  store(lanes, to);
  for (double g : gain) y.push_back(static_cast<int8_t>(bit_cast<uint64_t>(g) & 127));
  return y;
}

static std::vector<int8_t> spins(const Ring& ring, bool sites, bool metropolis, size_t helpers) {
  const Spins model{ring.rows(), ring.field.data(), ring.field.data(), metropolis, 0.995f};
  return swept(
      ring, model, sites, helpers,
      [&](auto from, Lanes& lanes) {
        if (sites) return load_one(from[0], ring.n, lanes.s);
        load_spins(from, ring.n, lanes.s);
      },
      [&](Lanes& lanes, auto to) {
        if (sites) return store_one(lanes.s, ring.n, to[0]);
        store_spins(lanes.s, ring.n, to, kLanes);
      });
}

static std::vector<int8_t> potts(const Ring& ring, bool metropolis, size_t helpers) {
  const Potts model{ring.rows(), ring.field.data(), ring.values, metropolis, 0.995f};
  return swept(
      ring, model, false, helpers,
      [&](auto from, Lanes& lanes) { load_values(from, ring.n, lanes.values); },
      [&](Lanes& lanes, auto to) { store_values(lanes.values, ring.n, to, kLanes); });
}

// Fields and energies; weights of sites, a choice of them, the values it draws and their score.
static std::vector<float> priced(const Ring& ring, size_t helpers) {
  const size_t n = ring.n, k = ring.values;
  const Rows rows = ring.rows();
  Helpers with(helpers);
  std::vector<float> energies(n * k), totals(n), fields(n), after(n);
  std::vector<int32_t> sites(n);
  std::vector<uint8_t> chosen(n);
  std::vector<int8_t> drawn(n);
  const float log_prob = potts(ring.x.data(), ring.field.data(), k, rows, energies.data());
  for (Balance balance : {kBarker, kSqrt, kLogWeight}) {
    for (size_t i = 0; i < n; i += 97) energies[i * k] = balance == kSqrt ? 400.0f : -400.0f;
    const Values of{energies.data(), ring.x.data(), n, k, balance};
    log_totals(of, totals.data(), with.team);
    const Key key = {1, 2};
    const auto length = static_cast<int32_t>(n / 3 + 1);
    totals[0] = race(key, totals.data(), n, kLogWeight, length, sites.data(), chosen.data(),
                     with.team);
    draw_values(of, key, sites.data(), length, drawn.data());
    totals.push_back(values_log_prob(of, totals.data(), drawn.data(), chosen.data()));
    totals.insert(totals.end(), drawn.begin(), drawn.end());
    totals.push_back(race_values(key, of, length, sites.data(), chosen.data(), drawn.data(),
                                 with.team));
    totals.push_back(order_values(of, drawn.data(), sites.data(), chosen.data(), length, true,
                                  with.team));
  }
  totals.push_back(log_prob);
  std::vector<int8_t> bits(n);
  for (size_t i = 0; i < n; ++i) bits[i] = ring.x[i] > 0;
  pair_fields(bits.data(), ring.field.data(), rows, fields.data());
  pair_update(fields.data(), bits.data(), chosen.data(), rows, after.data());
  totals.insert(totals.end(), after.begin(), after.end());
  return totals;
}

template <typename T>
static void same(const std::vector<T>& a, const std::vector<T>& b, const char* what) {
  if (a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0) return;
  std::printf("%s differ\n", what);
  std::exit(1);
}

int main() {
  for (size_t n : {2, 34, 258, 1000, 70002}) {  // the last is shared among threads
    const Ring bits = make(n, 2), three = make(n, 3);
    for (bool metropolis : {false, true}) {
      for (bool sites : {false, true})
        same(spins(bits, sites, metropolis, 0), spins(bits, sites, metropolis, 5), "spins");
      same(potts(three, metropolis, 0), potts(three, metropolis, 5), "values");
    }
    for (size_t values : {3, 4, 5, 7}) {
      const Ring ring = make(n, values);
      same(priced(ring, 0), priced(ring, 5), "prices");
    }
  }
  std::puts("clean");
}
