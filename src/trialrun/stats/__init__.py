"""Pure statistics: numbers in, numbers out. No clock, disk, network or shared chance; a seed is an argument."""
