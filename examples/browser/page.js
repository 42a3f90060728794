// A page that reports where its visitor says to be, and shows the policy and what was spent.
import { Device } from '@tidegate/device';

const element = (name) => document.getElementById(name);

/** Asks the owner, with the words of the policy. */
function consent({ kind, policy, clock, difference, fingerprint }) {
  const { epsilon, window, domain } = policy.protects;
  const facts = {
    [kind === 'change' ? 'What changes' : 'Stream']: difference ?? policy.stream,
    Promise: `In any window of ${window.timestamps ?? 'all'} timestamps of ${policy.ticks.seconds} s, what leaves this
      device loses at most epsilon ${epsilon} about which of ${domain} values is yours.`,
    'While the page is closed': clock ?? 'Nothing is believed of that time: reports begin after a whole window.',
    Fingerprint: fingerprint,
  };
  element('terms').replaceChildren(
    ...Object.entries(facts).flatMap(([name, text]) => {
      const [term, description] = [document.createElement('dt'), document.createElement('dd')];
      term.textContent = name;
      description.textContent = text;
      return [term, description];
    }),
  );
  const dialog = element('consent');
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener('close', () => resolve(dialog.returnValue === 'yes'), { once: true });
  });
}

async function start(settings) {
  const device = await Device.open({ ...settings, token: settings.token || undefined, source: 'position', consent });
  element('settings').hidden = true;
  element('device').hidden = false;
  const names = await device.values();
  const count = device.policy.protects.domain;
  for (let value = 0; value < count; value++) element('value').add(new Option(names?.[value] ?? value, value));
  const show = async () => {
    const { spent, budget } = await device.spent();
    element('spent').value = `${spent} of ${budget}`;
  };
  await show();
  await device.run(() => Number(element('value').value), {
    onOutcome: ({ question, kind, reason }) => {
      const line = document.createElement('li');
      line.textContent = `timestamp ${question.timestamp}: ${reason ?? kind}`;
      element('log').prepend(line);
      void show();
    },
    onError: (error) => (element('problem').textContent = error.message),
  });
}

element('settings').addEventListener('submit', (event) => {
  event.preventDefault();
  start(Object.fromEntries(new FormData(event.target))).catch((error) => {
    element('problem').textContent = error.message;
  });
});
