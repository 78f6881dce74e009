"""Training: data, warm-up, reinforcement learning in simulation, evaluation."""
