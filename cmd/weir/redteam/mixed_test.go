package redteam

var mixedSieges []siege
