"""The sampling loop, its planners, and batches over devices."""
