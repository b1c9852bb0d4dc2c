"""Learning models by contrastive divergence, and how good they are."""

from hopscale.learn.ais import log_z
from hopscale.learn.checkpoint import CheckpointError
from hopscale.learn.ebm import EBM, base_of
from hopscale.learn.likelihood import LogLikelihood, log_likelihood
from hopscale.learn.log_weights import LogZ, reliable
from hopscale.learn.networks import CNN, MLP, ResNet
from hopscale.learn.packing import load_model
from hopscale.learn.pcd import PCD
from hopscale.learn.rbm import RBMRecipe, TrainedRBM, train_rbm
from hopscale.learn.rbm_file import load_rbm
from hopscale.learn.trained import DivergedError, Trained
from hopscale.learn.training import train_ebm

__all__ = [
    "CNN",
    "EBM",
    "MLP",
    "PCD",
    "CheckpointError",
    "DivergedError",
    "LogLikelihood",
    "LogZ",
    "RBMRecipe",
    "ResNet",
    "Trained",
    "TrainedRBM",
    "base_of",
    "load_model",
    "load_rbm",
    "log_likelihood",
    "log_z",
    "reliable",
    "train_ebm",
    "train_rbm",
]
