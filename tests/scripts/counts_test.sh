#!/usr/bin/env bash
# Checks the counting of test.sh on a JUnit file as ctest writes them.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/counts.sh"

junit=$(mktemp)
trap 'rm -f "$junit"' EXIT

expect() {  # wanted counts; the file comes on standard input
  cat > "$junit"
  local got
  got=$(bevel_count_results "$junit")
  if [ "$got" != "$1" ]; then
    echo "expected '$1', got '$got' for:" >&2
    cat "$junit" >&2
    exit 1
  fi
}

expect '2 1 2' << 'XML'
<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="(empty)" tests="6" failures="1" disabled="0" skipped="3">
	<testcase name="A.Runs" classname="A.Runs" time="0.1" status="run">
		<system-out>a test that prints status="fail" and &lt;testcase name="x" status="fail"&gt;
		</system-out>
	</testcase>
	<testcase name="A.AlsoRuns/cpu" classname="A.AlsoRuns/cpu" time="0.1" status="run">
		<system-out/>
	</testcase>
	<testcase name="A.Fails" classname="A.Fails" time="0.1" status="fail">
		<failure message=""/>
		<system-out>no</system-out>
	</testcase>
	<testcase name="A.Skips/cuda" classname="A.Skips/cuda" time="0.1" status="notrun">
		<skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>
		<system-out>[  SKIPPED ]</system-out>
	</testcase>
	<testcase name="A.Disabled" classname="A.Disabled" time="0" status="disabled">
		<skipped message="Disabled"/>
	</testcase>
</testsuite>
XML

expect '0 2 0' << 'XML'
<testsuite name="(empty)" tests="2" failures="0" disabled="0" skipped="2">
	<testcase name="a_NOT_BUILT" classname="a_NOT_BUILT" time="0" status="notrun">
		<skipped message="Unable to find executable"/>
		<system-out>Unable to find executable: a_NOT_BUILT</system-out>
	</testcase>
	<testcase name="b" classname="b" time="0" status="notrun">
	</testcase>
</testsuite>
XML

expect '0 0 0' << 'XML'
<testsuite name="(empty)" tests="0" failures="0" disabled="0" skipped="0">
</testsuite>
XML
