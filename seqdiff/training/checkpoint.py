"""Checkpoints: orbax for the arrays, JSON for what they mean.

orbax writes in the background into a temporary folder and renames it when everything is on disk, so a folder named
after a step is complete; every process writes its own shards. Arrays are read back into the shardings that this run
uses, whatever those of the run that wrote them.
"""

import sys
from pathlib import Path
from typing import Any

import jax

from seqdiff.core.errors import InputError, missing_extra


class Checkpoints:
    """Numbered checkpoints in one folder, with the run's description beside the arrays.

    A restored run refuses a description that differs, naming the first key, because a state that continues under
    other settings would be neither run. Several processes need a folder that all of them see.
    """

    def __init__(self, folder: Path, description: dict[str, Any], *, keep: int = 2):
        try:
            import orbax.checkpoint as ocp
        except ImportError:
            raise missing_extra("orbax-checkpoint", "train") from None
        if keep < 1:
            raise InputError(f"keep={keep}: a run needs at least 1 checkpoint to go on from")
        self._ocp = ocp
        self._description = description
        self.folder = folder.resolve()
        options = ocp.CheckpointManagerOptions(max_to_keep=keep, create=True, cleanup_tmp_directories=True)
        self._manager = ocp.CheckpointManager(self.folder, options=options)

    def save(self, step: int, state: Any) -> None:
        """Write the state of ``step``, unless it is written; returns while the write goes on."""
        if self._manager.latest_step() == step:
            return
        ocp = self._ocp
        self._manager.save(
            step,
            args=ocp.args.Composite(
                state=ocp.args.StandardSave(state), description=ocp.args.JsonSave(self._description)
            ),
        )

    def restore(self, like: Any) -> tuple[int, Any] | None:
        """The latest (step, state) that can be read, or None in an empty folder.

        A damaged checkpoint is set aside as ``damaged-STEP``, with a line on standard error, and the one before it is
        read. With several processes it is an error, because they cannot tell whether all of them could read it.

        Args:
            like: a state of the same structure, shapes and shardings.

        Raises:
            InputError: the checkpoint was written under another description, or all that there are are damaged.
        """
        while (step := self._manager.latest_step()) is not None:
            try:
                found = self._read_description(step)
                self._compare(step, found)
                return step, self._read_state(step, like)
            except InputError:
                raise
            except Exception as error:
                self._set_aside(step, error)
        return None

    def _read_description(self, step: int) -> dict[str, Any]:
        args = self._ocp.args
        found = self._manager.restore(step, args=args.Composite(description=args.JsonRestore()))
        return dict(found["description"])

    def _read_state(self, step: int, like: Any) -> Any:
        args = self._ocp.args
        abstract = jax.tree.map(self._ocp.utils.to_shape_dtype_struct, like)
        return self._manager.restore(step, args=args.Composite(state=args.StandardRestore(abstract)))["state"]

    def _compare(self, step: int, found: dict[str, Any]) -> None:
        for key in sorted({*found, *self._description}):
            if found.get(key) != self._description.get(key):
                raise InputError(
                    f"checkpoint {self.folder}/{step} was written with {key}={found.get(key)!r}, this run has "
                    f"{self._description.get(key)!r}; use another output folder or the same settings"
                )

    def _set_aside(self, step: int, error: Exception) -> None:
        path, reason = self.folder / str(step), " ".join(str(error).split())[:200]
        earlier = [other for other in self._manager.all_steps() if other < step]
        if not earlier or jax.process_count() > 1:
            way = f"go on from step {max(earlier)}" if earlier else "begin anew"
            raise InputError(f"checkpoint {path} is damaged ({reason}); delete that folder to {way}") from error
        aside = self.folder / f"damaged-{step}"
        path.rename(aside)
        self._manager.reload()
        print(
            f"seqdiff: warning: checkpoint {path} is damaged ({reason}); it is now {aside.name}, and training goes on "
            f"from step {max(earlier)}",
            file=sys.stderr,
        )

    def close(self) -> None:
        """Wait for writes to finish."""
        self._manager.wait_until_finished()
        self._manager.close()
