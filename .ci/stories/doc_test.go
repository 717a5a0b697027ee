// Package stories makes fourteen faults in running fleets, and holds what somebody on call sees of each
// against the cause: the alert, the headline of the page, weir status, and weir explain.
//
// A fleet is the real weir between a scripted origin and clients. One real Prometheus scrapes all of
// them once a second, with a copy of the chart's rules in which hours and minutes are read as seconds,
// in for and in windows; nothing else is changed. Each fleet is a job of its own. Run it by make stories.
//
// Each query of the chart's dashboard is run against that Prometheus as well (TestDashboardQueries).
package stories
