"""Learning models by contrastive divergence, and measuring how good they are."""

from hopscale.learn.ais import log_z
from hopscale.learn.checkpoint import CheckpointError
from hopscale.learn.ebm import EBM, base_of
from hopscale.learn.health import CollapsedError, Crisis, DivergedError, TrainingError
from hopscale.learn.likelihood import LogLikelihood, log_likelihood
from hopscale.learn.log_weights import LogZ, reliable
from hopscale.learn.measure import measure_log_z
from hopscale.learn.mixture import Mixture
from hopscale.learn.networks import CNN, MLP, ResNet
from hopscale.learn.packing import load_model
from hopscale.learn.rbm import RBMRecipe, TrainedRBM, train_rbm
from hopscale.learn.rbm_file import load_rbm
from hopscale.learn.settings import PCD
from hopscale.learn.trained import Trained
from hopscale.learn.trainer import SlowTrainingWarning
from hopscale.learn.training import train_ebm

__all__ = [
    "CNN",
    "EBM",
    "MLP",
    "PCD",
    "CheckpointError",
    "CollapsedError",
    "Crisis",
    "DivergedError",
    "LogLikelihood",
    "LogZ",
    "Mixture",
    "RBMRecipe",
    "ResNet",
    "SlowTrainingWarning",
    "Trained",
    "TrainedRBM",
    "TrainingError",
    "base_of",
    "load_model",
    "load_rbm",
    "log_likelihood",
    "log_z",
    "measure_log_z",
    "reliable",
    "train_ebm",
    "train_rbm",
]
