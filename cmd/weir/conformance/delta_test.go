package conformance

var deltaCases = []testCase{}
