package conformance

var orderCases = []testCase{}
