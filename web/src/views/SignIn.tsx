import { useState } from 'preact/hooks';
import { refusal, roleOf, signIn } from '../state/session';
import { Note } from '../ui/parts';
import { Brand } from './Brand';

export function SignIn() {
  const [text, setText] = useState('');
  const [wrong, setWrong] = useState<string | null>(null);
  const submit = (event: Event): void => {
    event.preventDefault();
    const token = text.trim();
    if (roleOf(token) === null) {
      setWrong('A token looks like tg_a_…, tg_o_… or tg_i_…, without blanks. Copy all of it.');
      return;
    }
    signIn(token);
  };
  return (
    <main class="sign-in">
      <form class="card" onSubmit={submit}>
        <div class="brand">
          <Brand />
          <h1>tidegate</h1>
        </div>
        {refusal.value && <Note kind="bad">{refusal.value}</Note>}
        <label class="field">
          <span>Token of an analyst or an operator</span>
          <input
            name="token"
            type="password"
            autocomplete="off"
            spellcheck={false}
            required
            placeholder="tg_a_…"
            value={text}
            aria-describedby="about-token"
            aria-invalid={wrong !== null}
            onInput={(event) => setText(event.currentTarget.value)}
          />
        </label>
        {wrong && <Note kind="bad">{wrong}</Note>}
        <button type="submit" class="primary">
          Sign in
        </button>
        <p id="about-token" class="soft small">
          <code>tidegate token</code> makes one. It is kept in this tab only, until the tab is closed or you sign out.
        </p>
      </form>
    </main>
  );
}
