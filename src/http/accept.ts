/** A media range and its parameters, whose values can be quoted. */
const RANGE = /([^\s,;"]+)((?:\s*;\s*[^\s,;="]+(?:=(?:[^\s,;"]+|"(?:[^"\\]|\\.)*"))?)*)/g
const WEIGHT = /;\s*q=([\d.]+)/

/**
 * Which of `types` an Accept header prefers (RFC 9110, section 12.5.1); of equal ones the one that it names, then the first. Parameters
 * other than the weight are ignored. The first also stands for no header, and for one that accepts none of them.
 */
export function preferredType<Type extends string>(
  accept: string | undefined,
  types: readonly [Type, ...Type[]],
): Type {
  const weights = new Map<string, number>()
  for (const [, range = '', parameters = ''] of (accept ?? '').toLowerCase().matchAll(RANGE))
    weights.set(range, Number(WEIGHT.exec(parameters)?.[1] ?? 1))
  const ranked = types.map((type) => {
    const ranges = [type, type.replace(/\/.*/, '/*'), '*/*']
    const breadth = ranges.findIndex((range) => weights.has(range))
    return { type, breadth, weight: weights.get(ranges[breadth] ?? '') ?? 0 }
  })
  const [best] = ranked
    .filter(({ weight }) => weight > 0)
    .toSorted((one, other) => other.weight - one.weight || one.breadth - other.breadth)
  return best?.type ?? types[0]
}
