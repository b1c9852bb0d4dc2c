"""What the library says for Python, in the words of the command line."""

import re

WORDS = {
    "run.extend(draws)": "--resume and --draws",
    "(run.extend)": "(--resume and --draws)",
    "temper=hs.Tempering()": "--temper",
    "Pass starting states in `init`": "Give starting states from Python, hs.sample(init=...)",
    "Start them elsewhere (init=), fix": "Start them elsewhere (from Python, init=), fix",
    "hs.Fixed(R)": "--scale R",
    "hs.sample chooses": "--sampler auto chooses",
    'Use hs.LogDensity(..., ratios="exact")': "Use --ratios exact",
    'try ratios="exact"': "try --ratios exact",
    "or scale=hs.Tuned()": "or leave --scale out",
    "jax.config.update('jax_enable_x64', True)": "the environment variable JAX_ENABLE_X64=1",
    "hs.compare(target)": "hopscale compare",
}
SETTINGS = ("balance", "path", "repeats", "rule", "lengths")  # of kernels, that have an option


def for_commands(text: str) -> str:
    """A sentence of the library, with options in place of Python where there are some."""
    for python, option in WORDS.items():
        text = text.replace(python, option)
    text = re.sub(r"hs\.Tempering\(levels=(\d+)\)", r"--temper --levels \1", text)
    return re.sub(r"hs\.(LBP|GWG|DMALA|RWM|Gibbs)\(([^()]*)\)", _as_options, text)


def _as_options(found: re.Match) -> str:
    """A kernel as options; as it is, if it has settings without an option."""
    options = [f"--sampler {found[1].lower()}"]
    for setting in filter(None, found[2].split(", ")):
        name, _, value = setting.partition("=")
        if name in SETTINGS:
            options.append(f"--{name} {value.strip(chr(39))}")
        else:
            return found[0]
    return " ".join(options)
