"""Where arrays live: the devices of all processes as a mesh with the axes ``data`` and ``fsdp``.

A batch is split over all devices by its rows. Parameters, their average and the optimiser's state are whole on every
device (``data``), or each matrix is split along its largest axis over the axis ``fsdp`` (fully sharded; Rajbhandari et
al. 2020, ZeRO stage 3; Zhao et al. 2023), and XLA gathers a matrix where it is used. The numbers are those of one
device up to the order of summation.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from seqdiff.core.errors import InputError, unknown_key

LAYOUTS = ("none", "data", "fsdp")


def join_processes(coordinator: str, processes: int, process: int) -> None:
    """Make this process one of several that train together; call it before anything touches a device.

    Args:
        coordinator: ``host:port`` of process 0; ``auto`` finds it, and the other two, under SLURM, Open MPI or
            Kubernetes; empty for a process that trains alone.
        processes: how many there are; 0 where they are found.
        process: which one this is, from 0; negative where it is found.

    Raises:
        InputError: the processes do not find one another.
    """
    if not coordinator or jax.distributed.is_initialized():
        return
    try:
        jax.distributed.initialize(
            None if coordinator == "auto" else coordinator,
            processes or None,
            process if process >= 0 else None,
        )
    except (ValueError, RuntimeError) as error:
        raise InputError(
            f"distributed.coordinator={coordinator}: {' '.join(str(error).split())}; set distributed.coordinator="
            "HOST:PORT, distributed.processes and distributed.process (from 0) in every process"
        ) from error


def is_main() -> bool:
    """Whether this process writes the logs and the model."""
    return jax.process_index() == 0


@dataclass(frozen=True)
class Layout:
    """Shardings over a mesh.

    Attributes:
        mesh: with axes ``data`` and ``fsdp``.
    """

    mesh: Mesh

    @property
    def replicated(self) -> NamedSharding:
        """Whole on every device."""
        return NamedSharding(self.mesh, PartitionSpec())

    @property
    def rows(self) -> NamedSharding:
        """Split along the first axis over all devices."""
        return NamedSharding(self.mesh, PartitionSpec(("data", "fsdp")))

    def of(self, tree: Any) -> Any:
        """The sharding of each leaf: matrices along their largest axis that divides, the rest whole."""
        return jax.tree.map(self._leaf, tree)

    def _leaf(self, leaf: Any) -> NamedSharding:
        parts = self.mesh.shape["fsdp"]
        axes = [axis for axis, size in enumerate(leaf.shape) if size % parts == 0]
        if parts == 1 or leaf.ndim < 2 or not axes:
            return self.replicated
        widest = max(axes, key=lambda axis: leaf.shape[axis])
        return NamedSharding(self.mesh, PartitionSpec(*(None,) * widest, "fsdp"))

    def place(self, tree: Any) -> Any:
        """A tree on the mesh; every process must hold the same values."""
        return jax.device_put(tree, self.of(tree))

    def create(self, make: Callable[..., Any], *args: Any) -> Any:
        """``make(*args)`` made in place, so that no device holds more of the result than its share."""
        return jax.jit(make, out_shardings=self.of(jax.eval_shape(make, *args)))(*args)

    def batch(self, tokens: np.ndarray) -> jax.Array:
        """The whole batch on the mesh, of which this process holds the rows ``tokens``.

        Raises:
            InputError: the rows do not divide over the devices.
        """
        devices, rows = self.mesh.size, len(tokens) * jax.process_count()
        if rows % devices:
            raise InputError(f"batch={rows} does not divide over {devices} devices; make it a multiple of {devices}")
        return jax.make_array_from_process_local_data(self.rows, tokens)


def make_layout(sharding: str = "data", fsdp: int = 0) -> Layout:
    """A layout over the devices of all processes.

    Args:
        sharding: ``none`` (one device), ``data`` (whole parameters on every device) or ``fsdp``.
        fsdp: devices that share one copy of the parameters, the other axis being ``data``; 0 for all devices. Read by
            ``fsdp`` only.

    Raises:
        InputError: no such layout, or the number of devices is no multiple of ``fsdp``.
    """
    if sharding not in LAYOUTS:
        raise unknown_key("sharding", sharding, LAYOUTS)
    devices = np.array(jax.devices() if sharding != "none" else jax.local_devices()[:1])
    if sharding == "none" and jax.process_count() > 1:
        raise InputError(f"sharding=none uses one device, but {jax.process_count()} processes train; use data or fsdp")
    parts = (fsdp or devices.size) if sharding == "fsdp" else 1
    if devices.size % parts:
        raise InputError(f"fsdp={parts} does not divide the {devices.size} devices")
    return Layout(Mesh(devices.reshape(-1, parts), ("data", "fsdp")))


def to_host(tree: Any) -> Any:
    """A tree as host arrays, whole, in every process."""
    if jax.process_count() > 1:
        return multihost_utils.process_allgather(tree, tiled=True)
    return jax.device_get(tree)


def whole_batch(tokens: np.ndarray) -> np.ndarray:
    """The rows of all processes, in their order, given this process's."""
    if jax.process_count() > 1:
        return multihost_utils.process_allgather(tokens, tiled=True)
    return tokens


def agreed(flag: bool) -> bool:
    """Whether any process raises the flag; all processes must ask at the same time."""
    if jax.process_count() > 1:
        return bool(np.any(multihost_utils.process_allgather(np.array(flag))))
    return flag


def wait_for_all(name: str) -> None:
    """Return when all processes are here."""
    if jax.process_count() > 1:
        multihost_utils.sync_global_devices(name)
