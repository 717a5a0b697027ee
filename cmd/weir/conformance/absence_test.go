package conformance

var absenceCases = []testCase{}
