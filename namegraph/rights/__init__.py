"""Rights: subjects, presets, and the judgement if a principal has a privilege. Pure: no clock, key or network."""
