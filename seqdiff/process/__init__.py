"""The forward process: schedules, corruption, losses, likelihood."""
