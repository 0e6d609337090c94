"""Numbers from outcomes: text features, judge verdicts. One file per source of measures."""
