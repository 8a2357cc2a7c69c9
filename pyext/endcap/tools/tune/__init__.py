"""Search for the configuration of a model repository that serves most within a latency limit.

The steps of `endcap tune`:

    settings       what can be turned in the repository, and the texts of config.pbtxt for it
    state          measurements that an earlier run has made, by what they are measurements of
    search         which configuration is measured next, at which rate, and what that decides
      measurement    a server on a copy of the repository, under Poisson arrivals
    perf_analyzer  the chosen point, measured by NVIDIA's program where it is installed
    report, page   table and HTML

The search (`search`) turns one knob after the other, the one of most effect first, and holds the
others at the best values so far:

1. The repository as it is, the reference, is measured at some rates, from which the highest is
   interpolated whose 99th percentile is within the limit.
2. Each alternative of a knob gets one window at 70 % of that rate, with the arrivals and images of
   the reference's, which has three. Alternatives are compared by the mean latency of the slowest
   twentieth: it moves much more than the rate that a configuration can serve, and less by chance
   than the 99th percentile.
3. An alternative that cannot win costs little: it is dropped without a window where the warm-up's
   throughput is below the rate, and in the middle of it once so many requests are so late that
   the rest cannot change the result.
4. The best alternative of a knob, if it is better by a margin, is measured again in turns with the
   reference, each time on a server of its own. Only if it wins each time it becomes the reference,
   and the highest rate is found anew. One that is better by far becomes it at once.
5. What is left of the time, a third at least, goes to windows of the chosen configuration and the
   repository's in turns, at the same rate. The change is recommended only if the differences of
   these pairs are larger than their scatter explains; otherwise the repository stays as it is.

So noise costs a chance of improvement, not a needless change. What interacts is found only where
one of both changes is better alone.
"""
