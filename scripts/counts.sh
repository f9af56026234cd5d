# Sourced by test.sh: counts the results in a JUnit file that ctest wrote.

# Prints "<passed> <failed> <skipped>". A test counts as skipped only if it said so itself; one that was not run for
# another reason (its executable is missing, say) has failed.
bevel_count_results() {  # JUnit file
  awk '
    /^[ \t]*<testcase / {
      status = $0
      sub(/.* status="/, "", status)
      sub(/".*/, "", status)
      if (status == "run") passed++
      else if (status == "fail") failed++
      else if (status == "disabled") skipped++
      else pending = 1
      next
    }
    pending && /<skipped message="/ {
      if (/message="SKIP_/) skipped++
      else failed++
      pending = 0
    }
    /<\/testcase>/ && pending { failed++; pending = 0 }
    END { print passed + 0, failed + 0, skipped + 0 }
  ' "$1"
}
