interface Props {
  /** Names with their widths. */
  columns: Record<string, string | undefined>
  /** A column of buttons, which shows no name. */
  buttons?: string
}

export function ListHead({ columns, buttons }: Props) {
  return (
    <thead class="list-head">
      <tr>
        {Object.entries(columns).map(([name, width]) => (
          <th key={name} scope="col" style={{ width }}>
            <span class={name === buttons ? 'hidden' : undefined}>{name}</span>
          </th>
        ))}
      </tr>
    </thead>
  )
}
