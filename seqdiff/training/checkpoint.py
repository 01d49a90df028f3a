"""Checkpoints: orbax for the arrays, JSON for what they mean."""

from pathlib import Path
from typing import Any

import jax

from seqdiff.core.errors import InputError, missing_extra


class Checkpoints:
    """Numbered checkpoints in one folder, with the run's description beside the arrays.

    A restored run refuses a description that differs, naming the first key, because a state that continues under
    other settings would be neither run.
    """

    def __init__(self, folder: Path, description: dict[str, Any], *, keep: int = 2):
        try:
            import orbax.checkpoint as ocp
        except ImportError:
            raise missing_extra("orbax-checkpoint", "train") from None
        self._ocp = ocp
        self._description = description
        self.folder = folder.resolve()
        self._manager = ocp.CheckpointManager(
            self.folder, options=ocp.CheckpointManagerOptions(max_to_keep=keep, create=True)
        )

    def save(self, step: int, state: Any) -> None:
        """Write the state of ``step``; returns while the write goes on."""
        ocp = self._ocp
        self._manager.save(
            step,
            args=ocp.args.Composite(
                state=ocp.args.StandardSave(state), description=ocp.args.JsonSave(self._description)
            ),
        )

    def restore(self, like: Any) -> tuple[int, Any] | None:
        """The latest (step, state), or None in an empty folder.

        Args:
            like: a state of the same structure, shapes and shardings.

        Raises:
            InputError: the checkpoint was written under another description or is damaged.
        """
        ocp = self._ocp
        step = self._manager.latest_step()
        if step is None:
            return None
        try:
            found = self._manager.restore(step, args=ocp.args.Composite(description=ocp.args.JsonRestore()))
            found = dict(found["description"])
        except Exception as error:
            raise InputError(f"checkpoint {self.folder}/{step} is damaged ({error}); delete that folder") from error
        for key in sorted({*found, *self._description}):
            if found.get(key) != self._description.get(key):
                raise InputError(
                    f"checkpoint {self.folder}/{step} was written with {key}={found.get(key)!r}, this run has "
                    f"{self._description.get(key)!r}; use another output folder or the same settings"
                )
        abstract = jax.tree.map(ocp.utils.to_shape_dtype_struct, like)
        try:
            restored = self._manager.restore(step, args=ocp.args.Composite(state=ocp.args.StandardRestore(abstract)))
        except Exception as error:
            raise InputError(f"checkpoint {self.folder}/{step} is damaged ({error}); delete that folder") from error
        return step, restored["state"]

    def close(self) -> None:
        """Wait for writes to finish."""
        self._manager.wait_until_finished()
        self._manager.close()
