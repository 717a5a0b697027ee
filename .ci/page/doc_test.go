// Package page proves the admin page in a real browser. It has tests only, in a module of its own,
// since it needs Chromium: make page.
//
// # What runs
//
// One bed for all tests (bed_test.go): the real weir, three origins, and 2,000 simulated clients in
// 20 groups (fleet_test.go). Some reject a resource, and say why. One group, one client and one
// resource have hostile names: markup, quotes, text from right to left, and more than any line
// holds. One headless Chromium (browser_test.go) walks the page as a person does, by clicks and
// keys.
//
// # What holds for every test
//
// A tab notes each error of the console, each violation of the content security policy, each
// request that fails, and each script of a hostile name that runs. A test that ends with one of
// them fails, unless it has said that it expects that.
//
// # Times
//
// What is promised in seconds, milliseconds or a share of a core is asserted at five times as much,
// since other tests may share the machine. The true value is logged.
//
// # Screenshots
//
// bin/page has each view in light, dark and on a phone. They are for people to look at: nothing
// compares them. TestScreenshots makes those of the documentation (deploy/docs/screenshots), small
// and without hostile names.
//
// # Reading a failure
//
// A failed test leaves a screenshot of what its tab showed, bin/page/failed-TEST.png. WEIR_BINARY
// and CHROMIUM name the programs; without a Chromium the tests are skipped, and say so.
package page
