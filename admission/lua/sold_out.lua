-- Tells what a node must know to answer "sold out" by itself. Changes nothing.
--
-- KEYS gate stock
-- ARGV epoch
-- Replies {open, version, 1 if nothing of the sale is left, then for each SKU that is
-- sold out: id limit}; {closed, word} if nobody is admitted for another reason; or
-- {not-ready, epoch, state}.
local gate, refusal = open_gate(KEYS[1], ARGV[1], 'sale', 'starts', 'ends', 'version')
if not gate then return refusal end
local refused = refused_now(gate[4], gate[5], gate[6])
if refused then return {'closed', refused} end
local reply = {'open', gate[7], '1'}
local stock = redis.call('HGETALL', KEYS[2])
for i = 1, #stock, 2 do
  if tonumber(stock[i + 1]) < 1 then
    reply[#reply + 1] = stock[i]
    reply[#reply + 1] = redis.call('HGET', KEYS[1], 'limit:' .. stock[i])
  else
    reply[3] = '0'
  end
end
return reply
