"""Words that everything shares: alphabet, layout, contracts, outcomes, errors. Imports nothing of seqdiff."""
