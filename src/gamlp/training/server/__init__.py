"""A parameter server: workers pull weights and push gradients when they have them; nobody waits for all."""

from gamlp.training.server.launch import launch_served
from gamlp.training.server.process import ServerProcess, refusals, serve_slice, settings_of
from gamlp.training.server.service import Certificate
from gamlp.training.server.worker import ServedWorld

__all__ = ["Certificate", "ServedWorld", "ServerProcess", "launch_served", "refusals", "serve_slice", "settings_of"]
