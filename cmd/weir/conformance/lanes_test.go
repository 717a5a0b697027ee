package conformance

var lanesCases = []testCase{}
