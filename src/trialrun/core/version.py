"""The version of Trialrun, as it is written into every study."""

VERSION = "0.1.0"
