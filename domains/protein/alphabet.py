"""The twenty canonical amino acids and the groups that protein designers name."""

from seqdiff.core.alphabet import Alphabet

PROTEIN = Alphabet(
    name="protein",
    letters="ACDEFGHIKLMNPQRSTVWY",
    groups={
        "any": "ACDEFGHIKLMNPQRSTVWY",
        "hydrophobic": "AVILMFWYC",
        "aliphatic": "AVIL",
        "aromatic": "FWYH",
        "polar": "STNQHYDEKR",
        "charged": "DEKR",
        "positive": "KR",
        "basic": "KRH",
        "negative": "DE",
        "acidic": "DE",
        "small": "AGSTC",
        "tiny": "AGS",
        "helix": "AELMQKRH",
        "sheet": "VIYFWT",
        "turn": "GNPSD",
    },
)
