import { generate } from 'lean-qr'

/** The quiet zone around a code (ISO/IEC 18004). */
const MARGIN = 4
/** Smaller modules are hard to scan from a screen. */
const MODULE_PX = 3

/** Dark on white in both themes, because not every scanner reads inverted codes. */
export function QrCode({ text, label }: { text: string; label: string }) {
  const { size, get } = generate(text)
  const width = size + 2 * MARGIN
  const places = Array.from({ length: size * size }, (_, n) => [n % size, Math.floor(n / size)] as const)
  const path = places.filter(([x, y]) => get(x, y)).map(([x, y]) => `M${x + MARGIN} ${y + MARGIN}h1v1h-1z`)
  return (
    <svg class="qr" width={width * MODULE_PX} viewBox={`0 0 ${width} ${width}`} role="img" aria-label={label}>
      <rect width={width} height={width} fill="#fff" />
      <path d={path.join('')} fill="#000" />
    </svg>
  )
}
