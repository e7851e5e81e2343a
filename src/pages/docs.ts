/** On each page of the guides: copy buttons, and the API reference if it has a place for it. */

const reference = document.getElementById('reference')
if (reference) import('./docs/reference.tsx').then(({ showReference }) => showReference(reference))

for (const example of document.querySelectorAll('.example')) {
  const button = document.createElement('button')
  Object.assign(button, { type: 'button', className: 'small', textContent: 'Copy' })
  button.addEventListener('click', () => copy(example, button))
  example.prepend(button)
}

async function copy(example: Element, button: HTMLButtonElement): Promise<void> {
  const code = example.querySelector('code')
  if (!code) return
  // The clipboard requires TLS, and the browser can refuse it.
  const isDone = await (navigator.clipboard?.writeText(code.textContent) ?? Promise.reject()).then(
    () => true,
    () => false,
  )
  if (!isDone) getSelection()?.selectAllChildren(code)
  button.textContent = isDone ? 'Copied' : "Couldn't copy – press Ctrl+C"
  button.addEventListener('blur', () => Object.assign(button, { textContent: 'Copy' }), { once: true })
}
