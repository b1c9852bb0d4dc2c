"""Warnings that a run should not be trusted: one sentence each, with what to do."""

from typing import TYPE_CHECKING

import numpy as np

from hopscale.diagnostics import RHat
from hopscale.kernels.gibbs import BlockGibbs, Gibbs
from hopscale.kernels.kernel import Kernel, ScaleRange
from hopscale.kernels.swap import Swap
from hopscale.target import Target
from hopscale.targets.clamp import as_rbm
from hopscale.targets.derived import Derived
from hopscale.targets.log_density import LogDensity
from hopscale.tune import Fixed, Tuned
from hopscale.tune.law import Law

if TYPE_CHECKING:
    from hopscale.results.run import Run
    from hopscale.results.statistic import Statistic

R_HAT = 1.01
MEASURED_DRAWS = 10  # effective draws of each chain: enough to tell how its mean varies
# How much what chains are worth, measured within them, may be overestimated. On the paper's targets
# R-hat^2 - 1 is 0.6 to 2.1 times what it should be by chance where chains mix, most where they are
# worth few draws.
OVERESTIMATED = 2.0
RARE = 1e-3  # the probability of a larger R-hat by chance
EFFECTIVE_DRAWS = 400  # of all chains together
SCALE_DRIFT = 0.1  # the largest relative change allowed over the last half of warm-up
MOVED_AWAY = 0.15  # of log R: a little more than the step from 2 to 1.75
RATE_GAP = 0.05  # between the acceptance of the draws and the rate the tuner aimed at
RATE_NOISE = 1.5  # three times the most that acceptance can vary from step to step
LOST_DIGITS = 0.02  # the largest rounding error allowed in a log-density
ROUND_TRIPS = 100  # of all chains together
REJECTED = 0.9  # of swaps between neighbouring levels
EVEN = 0.1  # how near an even number a scale is if it nearly always changes as many sites
SETTLED_DRAWS = 50  # effective draws of each chain: it has seen what it can reach
TOO_FEW_DRAWS = 8  # entries of a trace: fewer say nothing
STANDSTILL = 0.01  # an acceptance rate that counts as none


def advice(run: "Run") -> tuple[str, ...]:
    """The warnings of a run; none if all is well."""
    parts = (_stuck, _invalid, _never_proposed, _undefined, _precision, _scale, _tempering, _mixing)
    return (*run.cautions, *(sentence for part in parts for sentence in part(run)))


def _stuck(run: "Run"):
    if not run.num_draws:
        yield "Nothing was drawn: the run was stopped during warm-up."
        return
    still = int(np.sum(run.distance_by_chain == 0))
    if still and run.num_draws >= TOO_FEW_DRAWS:
        yield (
            f"{still:,} of {run.chains:,} chains never moved in {run.num_draws:,} draws. Start "
            "them elsewhere (init=), fix a smaller scale, or check that changes of one site lead "
            f"to states of positive probability.{_fixed_sum(run)}"
        )


def _fixed_sum(run: "Run") -> str:
    """What to do if nothing is accepted because the number of ones may not change."""
    ones = np.asarray(run.last).reshape(run.chains, -1).sum(axis=1)
    inside = 0 < ones[0] < run.target.num_sites
    moves = run.acceptance > STANDSTILL or np.ptp(ones)
    if run.target.num_states != 2 or moves or _swaps(run) or not inside:
        return ""
    every = "All chains end" if run.chains > 1 else "The chain ends"
    number = "a single one" if ones[0] == 1 else f"{ones[0]:,} ones"
    return (
        f" {every} with {number}: if the density fixes their number, use "
        f"hs.Swap(ones={ones[0]}), which keeps it, and leave the constraint out of the density."
    )


def _invalid(run: "Run"):
    if run.invalid:
        yield (
            f"{run.invalid:,} proposals could not be judged and were rejected{_why(run)}. States "
            "beyond them are never reached: mend the density, or return -inf where it is zero."
        )


def _never_proposed(run: "Run"):
    if run.undefined and not run.invalid and not _swaps(run):
        where = f"One site away from where the {run.chains:,} chains ended"
        if isinstance(_inner(run), Gibbs):
            where = f"At the states that the last sweep of the {run.chains:,} chains weighed"
        yield (
            f"{where}, the log-density is NaN or +inf {run.undefined:,} times. Such states were "
            "taken to be impossible and never proposed: mend the density, or return -inf where it "
            "is zero."
        )


def _swaps(run: "Run") -> bool:
    return isinstance(_inner(run), Swap)


def _inner(run: "Run") -> Kernel:
    """The kernel that moves the chains, without a kernel around it."""
    return getattr(run.kernel, "kernel", run.kernel)


def _undefined(run: "Run"):
    """Statistics that were not a number."""
    names = [name for name, s in run.statistics.items() if not np.isfinite(s.mean)]
    if names and run.num_draws:
        yield (
            f"{' and '.join(names)} {'was' if len(names) == 1 else 'were'} not finite in some "
            "draws: the mean, effective sample size and R-hat say nothing of all draws. Check the "
            "function that was recorded."
        )


def _why(run: "Run") -> str:
    """What is wrong at the first invalid proposal."""
    if run.offender is None:
        return ": the log-density or its ratios were NaN or +inf"
    log_prob = float(run.target.log_prob(run.offender))
    if np.isfinite(log_prob):
        return (
            ": at the first, the log-density is a number and its log-ratios (its gradient, where "
            'ratios="gradient") hold NaN'
        )
    return f": at the first, the log-density is {log_prob}"


def _precision(run: "Run"):
    """Warn of large log-densities, which are rounded before their differences are taken."""
    resolution = abs(run.statistics["log_prob"].mean) * np.finfo(run.target.dtype).eps
    if resolution > LOST_DIGITS and _takes_differences(run):
        remedy = "Use"
        if _own_density(run.target):
            remedy = "Subtract a constant inside the density, or use"
        elif _swept(run.target):
            remedy = "Use hs.Gibbs(), which looks at what surrounds a site and not at the sum, or"
        yield (
            f"The log-density is about {run.statistics['log_prob'].mean:.3g}, which "
            f"{run.target.dtype.name} resolves to {resolution:.2g} only: ratios of probabilities "
            f"are as rough. {remedy} double precision: "
            "jax.config.update('jax_enable_x64', True)."
        )


def _takes_differences(run: "Run") -> bool:
    """Whether steps compare log-probabilities: all but sweeps that know what a site depends on."""
    return not (isinstance(run.kernel, Gibbs | BlockGibbs) and _swept(run.target))


def _swept(target: Target) -> bool:
    """Whether sites are drawn given their surroundings, without an evaluation."""
    return as_rbm(target) is not None or target.sweep() is not None


def _own_density(target: Target) -> bool:
    """Whether the density was written by the user, at least in part."""
    if isinstance(target, Derived):
        return any(map(_own_density, target.parts))
    ours = type(target).__module__.startswith(("hopscale.targets.", "hopscale.models."))
    return isinstance(target, LogDensity) or not ours


def _scale(run: "Run"):
    scales = run.kernel.scale_range(run.target)
    fixed = isinstance(getattr(run.tuner, "inner", run.tuner), Fixed)
    if scales is None or run.scale is None or not run.num_draws or fixed:
        return
    given = getattr(run.tuner, "rate", None)
    best = scales.rate if given is None else float(np.mean(np.asarray(given)))
    rate = best if given is not None else _found_rate(run, best)
    scale = float(np.mean(run.scale))
    here = _rate_at(run, rate, scale, scales)
    # The law is rough where R is small.
    gap = abs(run.acceptance - here) - abs(here - rate)
    gap -= RATE_NOISE / np.sqrt(run.chains * run.num_draws)
    if scale <= scales.low * 1.01 and run.acceptance < best - 0.1:
        reason = "Even the smallest changes are refused: hs.compare(target) tries other kernels."
        if run.kernel.informed and run.target.ratios != "exact":
            reason = (
                'Log-ratios that mislead do this: try ratios="exact", another balancing function, '
                "or hs.RWM()."
            )
        if np.any(run.distance_by_chain):  # else the warning about chains that never moved says it
            reason += _fixed_sum(run)
        yield (
            f"The scale is at its smallest, {scales.low:g}, and only {run.acceptance:.1%} of "
            f"proposals are accepted (the tuner aims at {best:.1%}). {reason}"
        )
    drift = _drift(run.warmup_history.get("scale", np.zeros(0)))
    inside = scales.low * 1.01 < scale < scales.tuned_high * 0.99
    if drift > SCALE_DRIFT or (inside and gap > RATE_GAP):
        found = "was still moving" if drift > SCALE_DRIFT else "was not right yet"
        yield (
            f"The scale {found} when warm-up ended (it moved by {drift:.0%} over its last half; "
            f"acceptance is {run.acceptance:.3f}, the tuner aimed at {here:.3f}). Use a longer "
            f"warm-up than {run.warmup:,} steps, {4 * run.warmup:,} say, or hs.Fixed(R)."
        )


def _rate_at(run: "Run", rate: float, scale: float, scales: ScaleRange) -> float:
    """The rate to expect of the draws, whose scale may be a little off that of warm-up.

    `Tuned` keeps away from even numbers, which matters where R is small.
    """
    warm = _last_quarter(run.warmup_history.get("scale", np.zeros(0)))
    tuned = isinstance(getattr(run.tuner, "inner", run.tuner), Tuned)
    if not tuned or not warm.size:
        return rate
    rise = np.log(scale / warm.mean())
    if abs(rise) > MOVED_AWAY:
        return rate
    return Law.of(scales.rate).moved(rate, rise)


def _last_quarter(history: np.ndarray) -> np.ndarray:
    return history[-(len(history) // 4) :] if len(history) > 8 else history[:0]


def _found_rate(run: "Run", best: float) -> float:
    """The acceptance rate at the end of warm-up, if the tuner found it itself."""
    accept_prob = _last_quarter(run.warmup_history.get("accept_prob", np.zeros(0)))
    return float(accept_prob.mean()) if accept_prob.size else best


def _drift(history: np.ndarray) -> float:
    """The relative change of the scale from the third to the last quarter of warm-up."""
    quarter = len(history) // 4
    if quarter < 2:
        return 0.0
    third, last = history[-2 * quarter : -quarter].mean(), history[-quarter:].mean()
    return abs(last - third) / max(abs(last), 1e-12)


def _tempering(run: "Run"):
    """Warn of too few levels, or of states that do not travel between them."""
    found = run.tempering
    if found is None or not run.num_draws:
        return
    if not np.isfinite(found.log_z):
        yield (
            "log Z was not found: its estimates between neighbouring levels did not arrive during "
            "warm-up. Use a longer warm-up, or hs.log_z."
        )
    if found.rejections.max() > REJECTED:
        yield (
            f"Neighbouring levels reject up to {found.rejections.max():.0%} of their swaps: "
            f"{found.betas.size} levels are too few for a barrier of {found.barrier:.3g} or more. "
            f"Use hs.Tempering(levels={max(found.levels_needed, found.betas.size + 1)}), or a "
            "longer warm-up."
        )
    elif found.round_trips < ROUND_TRIPS:
        yield (
            f"States went from the reference to the target and back {found.round_trips:,} times in "
            f"all chains together, fewer than {ROUND_TRIPS}: the weights of modes rest on that "
            "many visits. Draw longer (run.extend) or use more chains."
        )


def _disagreement(run: "Run", worst: "Statistic") -> str:
    """Why R-hat is high, and what to do."""
    # Enough to show that it is above the limit.
    digits = 6 if worst.r_hat < 1.02 else 4 if worst.r_hat < 1.1 else 3
    found = f"R-hat of {worst.name} is {worst.r_hat:.{digits}g}, above {R_HAT}: "
    if run.tempering is not None:
        return found + "chains differ still. Draw longer: run.extend(draws)."
    if np.isinf(worst.r_hat):
        return found + (
            "each chain keeps a value of its own, which no step changed. If the target has other "
            f"values too, use another kernel or temper=hs.Tempering().{_even(run)}"
        )
    of_place, of_spread = worst.r_hats
    what = "mean" if of_place.r_hat >= of_spread.r_hat else "spread"
    within = max(of_place, of_spread, key=lambda part: part.r_hat).ess * worst.block
    if within > SETTLED_DRAWS:
        return found + (
            f"each chain is settled ({within:.0f} effective draws), with a {what} of its own. The "
            f"target has modes that chains do not cross: use temper=hs.Tempering().{_even(run)}"
        )
    return found + (
        f"chains have not forgotten where they started, and their {what}s differ. Warm up and draw "
        "longer; if R-hat stays, the target has modes that chains do not cross: use "
        f"temper=hs.Tempering().{_even(run)}"
    )


def _even(run: "Run") -> str:
    """Another reason, if nearly all steps change an even number of sites."""
    scale = np.nan if run.scale is None else float(np.mean(run.scale))
    even = 2.0 * np.round(0.5 * scale)
    of_bits = run.target.num_states == 2 and not _swaps(run)
    if not (of_bits and even > 0 and abs(scale - even) < EVEN):
        return ""
    return (
        f" Or the reason is that R is {scale:.3g}: steps of an even number of sites hardly change "
        "the parity of bits. Try an odd R first, or scale=hs.Tuned()."
    )


def disagrees(run: "Run", statistic: "Statistic") -> bool:
    r"""Whether R-hat is too high for chains that agree.

    The means of half-chains, worth e / 2 draws each, vary by 2 / e of the variance. R-hat is
    therefore about $\sqrt{1 + 2 / e}$ when all is well: above 1.01 for chains worth fewer than 100
    draws, however many chains there are, and at times more if these are few. Chance explains that
    much if warm-up was long enough to forget the start. e is measured within chains, so that chains
    with different means do not lower it; and for what each R-hat is of, since a chain may forget
    its place sooner than its spread.
    """
    from scipy.special import chdtri  # SciPy is slow to import

    forgotten = statistic.ess * min(1.0, run.warmup / run.num_draws) >= MEASURED_DRAWS

    # The variance of the means of m half-chains has a chi-square distribution.
    others = 2 * run.chains - 1
    most = OVERESTIMATED * float(chdtri(others, RARE)) / others

    def by_chance(part: RHat) -> bool:
        return forgotten and part.r_hat**2 - 1.0 <= most * 2.0 / part.ess

    return any(part.r_hat > R_HAT and not by_chance(part) for part in statistic.r_hats)


def chains_agree(run: "Run") -> bool:
    """Whether the chains of a run agree in every statistic."""
    return not any(disagrees(run, s) for s in _traced(run))


def _traced(run: "Run") -> list["Statistic"]:
    return [s for s in run.statistics.values() if s.trace.shape[1] >= TOO_FEW_DRAWS]


def _mixing(run: "Run"):
    traces = _traced(run)
    if not run.num_draws:
        return
    if not traces:
        few = "One draw is" if run.num_draws == 1 else f"{run.num_draws} draws are"
        yield f"{few} too few to judge by. Draw longer: run.extend(draws)."
        return
    if np.all(run.distance_by_chain == 0):
        return
    apart = [s for s in traces if disagrees(run, s)]
    if apart:
        yield _disagreement(run, max(apart, key=lambda s: s.r_hat))
        return
    least = min(traces, key=lambda s: np.inf if np.isnan(s.ess_total) else s.ess_total)
    if least.ess_total < EFFECTIVE_DRAWS:
        yield (
            f"All draws together are worth {least.ess_total:.0f} independent ones for the mean of "
            f"{least.name}, fewer than {EFFECTIVE_DRAWS}. Draw longer: run.extend(draws)."
        )
