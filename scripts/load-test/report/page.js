// Runs in the report's page: draws the plots, whose values are in their elements.
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name)
const showX = {
  percentile: (rarity) => Number((100 * (1 - 10 ** -rarity)).toPrecision(6)),
  seconds: (seconds) => `${seconds} s`,
}

for (const element of document.querySelectorAll('[data-plot]')) {
  const { x, isLogarithmic, labels, columns } = JSON.parse(element.dataset.plot)
  const axis = {
    stroke: color('--quiet'),
    grid: { stroke: color('--line'), width: 1 },
    ticks: { show: false },
  }
  new uPlot(
    {
      width: element.clientWidth,
      height: 260,
      scales: {
        x: { time: false },
        y: isLogarithmic ? { distr: 3 } : { range: (_plot, _lowest, highest) => [0, highest * 1.1 || 1] },
      },
      axes: [{ ...axis, space: 40, values: (_plot, splits) => splits.map(showX[x]) }, axis],
      series: [
        { label: x, value: (_plot, value) => (value === null ? '' : showX[x](value)) },
        ...labels.map((label, n) => ({ label, stroke: color(n === 0 ? '--a' : '--b'), width: 2 })),
      ],
    },
    columns,
    element,
  )
}
