const token = new URLSearchParams(location.hash.slice(1)).get('token');
const headers = token ? { Authorization: `Bearer ${token}` } : {};
const answer = await fetch('/v1/overview', { headers });
const { streams = [], message } = await answer.json();
const app = document.getElementById('app');
app.textContent = message ?? streams.map(({ name, status }) => `${name}: ${status}`).join('\n');
