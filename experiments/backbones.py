"""Ideal backbones to design sequences for, when no structure is at hand: parallel coiled coils (Crick 1953).

    python -m seqdiff.experiments.backbones coiled_coil.pdb chains=2 residues=35

An alpha helix is laid along a left-handed superhelix by Crick's parameters; residues ``a`` and ``d`` of each heptad
face the axis, residue 1 being a ``d``.
"""

import sys
from pathlib import Path

import numpy as np
from jaxtyping import Float

from seqdiff.core.errors import InputError
from seqdiff.request.overrides import parse_overrides

RISE = 1.51
"""Angstrom per residue along the helix."""
PITCH = 148.0
"""Angstrom per turn of the superhelix, as in GCN4 (O'Shea et al. 1991)."""
RADIUS = {2: 4.9, 3: 6.3, 4: 7.4}
"""Angstrom from the superhelix's axis to each helix's, by number of helices."""
TURN = 720.0 / 7.0
"""Degrees per residue about the helix's own axis: seven residues in two turns of the superhelix's frame."""
PHASE = -26.0
"""Degrees by which CA of residue 1 points away from the superhelix's axis, so that a and d share it."""


def straight_helix() -> dict[str, tuple[float, float, float]]:
    """Radius (Angstrom), angle (degrees) and height (Angstrom) of N, CA, C and O relative to CA on the helix axis."""
    chain = _chain(12)
    ca = chain[:, 1]
    steps = ca[2:] - 2 * ca[1:-1] + ca[:-2]
    axis = np.cross(steps[:-1], steps[1:]).mean(axis=0)
    axis /= np.linalg.norm(axis)
    outward = -steps[4] / np.linalg.norm(steps[4])
    flat = ca - (ca @ axis)[:, None] * axis
    # All CA lie on one circle, whose centre solves a linear system.
    u = outward - (outward @ axis) * axis
    u /= np.linalg.norm(u)
    v = np.cross(axis, u)
    plane = np.stack([flat @ u, flat @ v], axis=1)
    system = np.concatenate([2 * plane, np.ones((len(plane), 1))], axis=1)
    centre = np.linalg.lstsq(system, (plane**2).sum(axis=1), rcond=None)[0][:2]
    found = {}
    reference = None
    for name, number in (("CA", 1), ("N", 0), ("C", 2), ("O", 3)):
        atom = chain[5, number]
        x, y = atom @ u - centre[0], atom @ v - centre[1]
        angle, height = np.degrees(np.arctan2(y, x)), atom @ axis
        reference = (angle, height) if reference is None else reference
        turn = (angle - reference[0] + 180.0) % 360.0 - 180.0
        found[name] = (float(np.hypot(x, y)), float(turn), float(height - reference[1]))
    return {name: found[name] for name in ("N", "CA", "C", "O")}


def _chain(residues: int) -> Float[np.ndarray, "L 4 3"]:
    """A chain of ideal bonds (Engh and Huber 1991) and the torsions of an alpha helix."""
    phi, psi, omega = (np.radians(angle) for angle in (-62.0, -42.0, 180.0))
    atoms = [np.array([0.0, 0.0, 0.0]), np.array([1.458, 0.0, 0.0])]
    atoms.append(atoms[1] + 1.525 * np.array([-np.cos(np.radians(111.0)), np.sin(np.radians(111.0)), 0.0]))
    for _ in range(residues - 1):
        for bond, angle, torsion in ((1.329, 116.6, psi), (1.458, 121.7, omega), (1.525, 111.0, phi)):
            atoms.append(_next(*atoms[-3:], bond, np.radians(angle), torsion))
    atoms.append(_next(*atoms[-3:], 1.329, np.radians(116.6), psi))
    backbone = np.array(atoms[: 3 * residues]).reshape(residues, 3, 3)
    following = np.array([*atoms[3 : 3 * residues : 3], atoms[-1]])
    c = backbone[:, 2]
    away = (c - backbone[:, 1]) / 1.525 + (c - following) / 1.329
    oxygen = c + 1.231 * away / np.linalg.norm(away, axis=1, keepdims=True)
    return np.concatenate([backbone, oxygen[:, None]], axis=1)


def _next(
    a: Float[np.ndarray, "3"],
    b: Float[np.ndarray, "3"],
    c: Float[np.ndarray, "3"],
    bond: float,
    angle: float,
    torsion: float,
) -> Float[np.ndarray, "3"]:
    """The atom after c at a bond length, bond angle and torsion."""
    bc = (c - b) / np.linalg.norm(c - b)
    normal = np.cross(b - a, bc)
    normal /= np.linalg.norm(normal)
    frame = np.stack([bc, np.cross(normal, bc), normal], axis=1)
    return c + frame @ (
        bond * np.array([-np.cos(angle), np.sin(angle) * np.cos(torsion), np.sin(angle) * np.sin(torsion)])
    )


def coiled_coil(chains: int, residues: int) -> Float[np.ndarray, "C L 4 3"]:
    """N, CA, C and O of a parallel coiled coil, in Angstrom.

    Args:
        chains: 2, 3 or 4 helices around one axis.
        residues: of each.
    """
    radius = RADIUS[chains]
    # Degrees per residue about the superhelix's axis: a left-handed one turns against the helix.
    around = -360.0 * RISE / PITCH
    tilt = np.arctan2(2 * np.pi * radius, PITCH)
    atoms = straight_helix()
    coords = np.zeros((chains, residues, 4, 3))
    for chain in range(chains):
        for place in range(residues):
            for number, (own, turn, height) in enumerate(atoms.values()):
                along = place + height / RISE
                big = np.radians(around * along + 360.0 * chain / chains)
                small = np.radians(TURN * place + turn + 180.0 + PHASE)
                local = np.array([own * np.cos(small), own * np.sin(small) * np.cos(tilt), own * np.sin(small)])
                outward = np.array([np.cos(big), np.sin(big), 0.0])
                sideways = np.array([-np.sin(big), np.cos(big), 0.0])
                point = (radius + local[0]) * outward + local[1] * sideways
                point[2] = RISE * along * np.cos(tilt) + own * np.sin(small) * np.sin(tilt)
                coords[chain, place, number] = point
    return coords


def to_pdb(coords: Float[np.ndarray, "C L 4 3"]) -> str:
    """The backbone as a PDB file of alanines, chains A, B, ..."""
    lines, serial = ["REMARK   ideal parallel coiled coil, made by seqdiff.experiments.backbones"], 0
    for chain, residues in zip("ABCD", coords, strict=False):
        for number, atoms in enumerate(residues, 1):
            for name, (x, y, z) in zip(("N", "CA", "C", "O"), atoms, strict=True):
                serial += 1
                place = f"{x:8.3f}{y:8.3f}{z:8.3f}"
                lines.append(
                    f"ATOM  {serial:5d}  {name:<3} ALA {chain}{number:4d}    {place}  1.00  0.00           {name[0]}"
                )
        lines.append("TER")
    return "\n".join([*lines, "END"]) + "\n"


def main(words: list[str]) -> None:
    """Write the file that the words describe."""
    if not words or "=" in words[0]:
        raise InputError("name the file to write first, such as coiled_coil.pdb chains=2 residues=35")
    options = {"chains": 2, "residues": 35} | dict(parse_overrides(words[1:]))
    if set(options) != {"chains", "residues"} or options["chains"] not in RADIUS:
        raise InputError(f"{options}: write chains=2, 3 or 4 and residues=35")
    Path(words[0]).write_text(to_pdb(coiled_coil(options["chains"], options["residues"])))


if __name__ == "__main__":
    main(sys.argv[1:])
